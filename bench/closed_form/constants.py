"""What data sheets leave open: constants with what is known of each before any step is measured.

A prior is the value that kernels, collectives or software are known to reach, its spread the
standard deviation of the logarithm. Fitting moves a constant as far as measurements outweigh it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bench.closed_form.runs import GENERATIONS, STACKS, Column, Runs


@dataclass(frozen=True, slots=True)
class Constant:
    """meaning with its unit; source: published, or chosen and why."""

    name: str
    prior: float
    spread: float
    meaning: str
    source: str


def _each(
    name: str, kinds: tuple[str, ...], priors: tuple[float, ...], spread: float, meaning: str,
    source: str,
) -> tuple[Constant, ...]:  # fmt: skip
    return tuple(
        Constant(f"{name}.{kind}", prior, spread, meaning, source)
        for kind, prior in zip(kinds, priors, strict=True)
    )


CONSTANTS = (
    *_each(
        "matmul", GENERATIONS, (0.78, 0.72, 0.70), 0.1, "share of peak of a large product",
        "published: 0.75-0.87 on A100, 0.80 at best on H100, 0.78 on B200 (EleutherAI/cookbook, "
        "stas00/ml-engineering); large devices keep less of it at the clocks of a long run",
    ),
    Constant(
        "matmul_eight_bit", 0.8, 0.2, "of that share, what products of 8-bit numbers reach",
        "chosen: scaling and casts beside products",
    ),
    Constant(
        "matmul_traffic", 0.5, 0.5, "share of a product's memory traffic that it does not hide",
        "chosen: the first and last tiles of a product wait, the others do not",
    ),
    *_each(
        "attention", GENERATIONS, (0.6, 0.5, 0.5), 0.2,
        "share of the 16-bit peak of a fused causal kernel at head dimension 128",
        "published: FlashAttention-2 (arXiv:2307.08691) reaches 0.5-0.73 on A100, less on H100",
    ),
    Constant(
        "attention_backward", 0.8, 0.2, "of that share, what its backward kernel reaches",
        "published: arXiv:2307.08691, figures 4 and 6",
    ),
    Constant(
        "head_dimension", 32.0, 0.5, "head dimension at which the kernel has half of its rate",
        "chosen: 64 is a fifth slower than 128 (arXiv:2307.08691)",
    ),
    Constant(
        "attention_sequence", 500.0, 0.5, "sequence at which the kernel has half of its rate",
        "published: 99 TFLOP/s at 512 tokens, 189 at 16,384 (arXiv:2307.08691, figure 4, causal, "
        "head dimension 128)",
    ),
    Constant(
        "attention_ported", 0.6, 0.3,
        "of that share, what kernels reach that were written for an older generation",
        "published: FlashAttention-2 is 1.5 to 2 times slower on H100 (arXiv:2407.08608)",
    ),
    Constant(
        "cast_passes", 2.0, 0.5, "16-bit reads and writes of what 8-bit products read, for a cast",
        "chosen: read, written in 8 bits, and transposed",
    ),
    Constant(
        "scores", 0.55, 0.3, "share of the 16-bit peak of unfused batched score products",
        "published: 0.42 and 0.70 on A100 (EleutherAI/cookbook)",
    ),
    Constant(
        "score_passes", 8.0, 0.5, "16-bit reads and writes of the score matrix, forward",
        "chosen: scale, mask, softmax and dropout, fused in part",
    ),
    Constant(
        "memory", 0.8, 0.15, "share of memory bandwidth of element-wise kernels",
        "published: 0.7-0.85 on A100 (EleutherAI/cookbook)",
    ),
    Constant(
        "hidden_passes", 12.0, 0.5, "16-bit reads and writes of [tokens, hidden] a layer, forward",
        "chosen: two norms, two residuals, two dropouts or their like, two accesses each",
    ),
    Constant(
        "ffn_passes", 4.0, 0.5, "16-bit reads and writes of [tokens, ffn] a layer, forward",
        "chosen: a nonlinearity, with its gate or bias",
    ),
    Constant(
        "state_passes", 16.0, 0.5, "16-bit reads and writes of what a state space's mixer makes",
        "chosen: parts and their order 3, convolution 2, states of chunks in float32 made, "
        "passed on and read 5, scan 3, gate and norm 3 (arXiv:2405.21060, section 6)",
    ),
    *_each(
        "launch", STACKS, (8e-4, 4e-4, 4e-4, 2e-4, 5e-5, 1e-5, 4e-4, 4e-4), 0.7,
        "s that the host needs for a layer's pass: no pass is shorter",
        "published: 0.56 to 0.87 ms a layer of BERT's forward pass at batch 1 (NVIDIA "
        "FasterTransformer, docs/encoder_guide.md, PyTorch on V100 and T4); the others chosen: "
        "fused kernels and graphs need fewer launches",
    ),
    Constant(
        "launch_tensor_parallel", 0.1, 0.7, "more of that for each further tensor-parallel rank",
        "chosen: the slowest of the ranks' hosts starts a collective",
    ),
    Constant(
        "inside", 0.78, 0.08, "share of the links inside a node that large collectives reach",
        "published: 0.76 on A100, 0.82 on H200, 0.76 on B200 (vTrain, stas00/ml-engineering)",
    ),
    Constant(
        "between", 0.8, 0.1, "share of the network ports that large collectives reach",
        "published: 0.77-0.90 (aws-samples, stas00/ml-engineering)",
    ),
    Constant(
        "inside_latency", 5e-6, 0.15, "s a step inside a node",
        "published: NCCL src/graph/tuning.cc, 4 us",
    ),
    Constant(
        "between_latency", 1.4e-5, 0.15, "s a step between nodes",
        "published: NCCL src/graph/tuning.cc, 14 us",
    ),
    Constant(
        "collective_start", 1.5e-5, 0.5, "s before a collective's first step",
        "published: 10-20 us for 8 bytes in one node (aws-samples)",
    ),
    *_each(
        "tensor_exposed", STACKS, (1.0, 0.9, 0.9, 0.9, 0.5, 0.5, 0.9, 0.9), 0.2,
        "share of tensor-parallel collectives that computation does not hide",
        "chosen: only newer stacks split products to send while they multiply",
    ),
    *_each(
        "overlapped", STACKS, (0.05, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01, 1.0), 0.5,
        "share of a pass beside which its parameters are gathered and its gradients reduced",
        "chosen: stacks of 2021 waited, PaddleNLP does by default; others prefetch and reduce in "
        "buckets",
    ),
    Constant(
        "interference", 0.15, 0.3, "share of an overlapped collective's time that is felt",
        "chosen: its kernels take multiprocessors and bandwidth",
    ),
    Constant(
        "gather_exposed", 0.8, 0.3, "share of the gather of updated parameters that is waited for",
        "chosen: only some stacks let the next step's forward pass begin before its end",
    ),
    *_each(
        "messages", STACKS, (4.0, 1.0, 12.0, 4.0, 4.0, 1.0, 4.0, 4.0), 0.5,
        "messages a layer in which gradients and parameters travel",
        "chosen: a layer, its matrices, or each of its tensors",
    ),
    Constant(
        "per_tensor_messages", 12.0, 0.4, "the same where each tensor is gathered by itself",
        "chosen: the matrices, biases and norms of a layer",
    ),
    Constant(
        "expert_exposed", 0.9, 0.4, "share of the all-to-alls of experts that is not hidden",
        "chosen: little runs beside them",
    ),
    Constant(
        "expert_matmul", 0.6, 0.3,
        "of a large product's share, what experts' products reach, several on a device",
        "chosen: uneven groups, permutations",
    ),
    Constant(
        "routing_passes", 8.0, 0.5, "16-bit reads and writes of [tokens, top_k, hidden] a layer",
        "chosen: permuted before and after the exchange, weighed and added up",
    ),
    Constant(
        "routing_start", 3e-4, 0.7, "s of a layer's pass for the router and the order of tokens",
        "chosen: 30 small kernels of 10 us, as the host waits for counts and is not ahead",
    ),
    Constant(
        "expert_start", 4e-5, 0.7,
        "s of a layer's pass for every expert of a device, twice as long where products are cast",
        "chosen: two products and what orders their inputs, four kernels of 10 us",
    ),
    Constant(
        "context_exposed", 0.4, 0.6, "share of the exchange of keys and values that is not hidden",
        "chosen: rings run beside attention",
    ),
    Constant(
        "optimizer_traffic", 24.0, 0.5, "bytes a parameter that the update reads and writes",
        "chosen: 12 bytes of state read and written",
    ),
    Constant(
        "step_overhead", 1e-2, 1.0, "s of a step outside passes: data, clipping, logging",
        "chosen",
    ),
)  # fmt: skip

_PLACE = {own.name: place for place, own in enumerate(CONSTANTS)}
PRIOR = np.log([own.prior for own in CONSTANTS])
SPREAD = np.array([own.spread for own in CONSTANTS])


@dataclass(frozen=True, slots=True)
class Constants:
    """Values of all CONSTANTS, as logarithms."""

    logs: Column

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Constants:
        """From values by name; KeyError for one that lacks."""
        return cls(np.log([values[own.name] for own in CONSTANTS]))

    def __getitem__(self, name: str) -> float:
        return float(np.exp(self.logs[_PLACE[name]]))

    def of_stack(self, name: str, runs: Runs) -> Column:
        """A constant that each stack has its own of, for every run."""
        return runs.of_stack({kind: self[f"{name}.{kind}"] for kind in STACKS})

    def of_generation(self, name: str, runs: Runs) -> Column:
        """A constant that each generation of devices has its own of, for every run."""
        return runs.of_generation({kind: self[f"{name}.{kind}"] for kind in GENERATIONS})
