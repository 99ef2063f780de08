"""Training runs as columns of numbers: models, clusters and strategies, one row a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Column = NDArray[np.float64]

# Which constants a run has: by what its devices are, and by what software runs on them.
GENERATIONS = ("ampere", "hopper", "blackwell")
STACKS = ("eager", "fsdp", "zero", "megatron", "nemo", "compiled", "paddle", "other")
# stacks whose kernels follow the newest devices: chosen, as they call cuDNN or a compiler
NATIVE = ("megatron", "nemo", "compiled")
NONE, SELECTIVE, FULL, PRODUCTS = 0.0, 1.0, 2.0, 3.0


@dataclass(frozen=True, slots=True)
class Runs:
    """Every field is an array of one length; a scalar stands for all runs.

    Model: layers; hidden; heads, kv_heads, head_dim; qkv_width: parameters of queries, keys and
    values for each hidden number; ffn, of a dense layer; ups: products before
    the nonlinearity, 2 with a gate; vocabulary; sequence, tokens; experts, top_k, expert_ffn,
    shared_ffn (of experts that every token visits), expert_ups, expert_hidden (what experts read),
    dense_layers (those without experts); attention_layers, state_layers (those that mix tokens by
    attention, by a state space), attended (share of the causal pairs of tokens that windows leave,
    mean of those layers), state_inner and state_width (what a state space's last product reads, its
    first one writes). number_bytes: of an activation.

    Device: peak_flops_per_s of products, attention_flops_per_s of 16-bit products,
    memory_bytes_per_s, memory_bytes; per_node devices share inside_bytes_per_s each, one direction,
    and leave their node by between_bytes_per_s each. generation: index in GENERATIONS. eight_bit:
    whether products are of 8-bit numbers.

    Strategy: devices = dp * tp * pp * cp; ep lies within dp and cp; stages_per_rank; zero: ZeRO's
    stage, sharded: ranks in a sharding group; gradient_bytes: of a parameter while gradients are
    added up; logit_bytes: of a logit, with its gradient; microbatch and batch, sequences;
    recompute: NONE, SELECTIVE (the attention core), PRODUCTS (every second one, and what is
    element-wise) or FULL; sequence_parallel; flash: whether attention is one kernel. stack: index
    in STACKS. per_tensor: whether parameters are gathered one by one.
    """

    layers: Column
    hidden: Column
    heads: Column
    kv_heads: Column
    head_dim: Column
    qkv_width: Column
    ffn: Column
    ups: Column
    vocabulary: Column
    sequence: Column
    experts: Column
    top_k: Column
    expert_ffn: Column
    shared_ffn: Column
    expert_ups: Column
    expert_hidden: Column
    dense_layers: Column
    attention_layers: Column
    attended: Column
    state_layers: Column
    state_inner: Column
    state_width: Column
    number_bytes: Column
    peak_flops_per_s: Column
    attention_flops_per_s: Column
    memory_bytes_per_s: Column
    memory_bytes: Column
    per_node: Column
    inside_bytes_per_s: Column
    between_bytes_per_s: Column
    generation: Column
    eight_bit: Column
    dp: Column
    tp: Column
    pp: Column
    cp: Column
    ep: Column
    stages_per_rank: Column
    zero: Column
    gradient_bytes: Column
    logit_bytes: Column
    sharded: Column
    microbatch: Column
    batch: Column
    recompute: Column
    sequence_parallel: Column
    flash: Column
    stack: Column
    per_tensor: Column

    @classmethod
    def of(cls, columns: Mapping[str, ArrayLike]) -> Runs:
        """Runs of named columns; KeyError for one that lacks, ValueError for unequal lengths."""
        arrays = [np.atleast_1d(columns[field.name]).astype(float) for field in fields(cls)]
        return cls(*(np.ascontiguousarray(each) for each in np.broadcast_arrays(*arrays)))

    def __len__(self) -> int:
        return len(self.layers)

    def take(self, which: NDArray[Any]) -> Runs:
        """The runs of a mask or of indices."""
        return Runs(*(getattr(self, field.name)[which] for field in fields(self)))

    @property
    def microbatches(self) -> Column:
        """Of each pipeline in a step."""
        return np.maximum(1.0, self.batch / (self.dp * self.microbatch))

    @property
    def tokens(self) -> Column:
        """Of one microbatch on one context rank."""
        return self.microbatch * self.sequence / self.cp

    @property
    def sequence_parts(self) -> Column:
        """Into how many parts tensor-parallel ranks cut sequences between their products."""
        return np.where(self.sequence_parallel > 0, self.tp, 1.0)

    @property
    def sharding_group(self) -> Column:
        """Ranks among which parameters, gradients or states are cut, where ZeRO cuts them."""
        return np.minimum(self.sharded, self.dp * self.cp)

    def of_stack(self, values: Mapping[str, float]) -> Column:
        """For every run what its stack has."""
        return _chosen(values, STACKS, self.stack)

    def of_generation(self, values: Mapping[str, float]) -> Column:
        """For every run what its generation of devices has."""
        return _chosen(values, GENERATIONS, self.generation)

    @property
    def ported(self) -> Column:
        """Whether attention's kernel was written for an older generation of devices."""
        own = self.of_stack({kind: float(kind in NATIVE) for kind in STACKS})
        return np.where(self.generation > 0, 1.0 - own, 0.0)

    @property
    def dense_share(self) -> Column:
        """Of the layers, those whose feed-forward part is dense."""
        return self.dense_layers / self.layers

    @property
    def attention_share(self) -> Column:
        """Of the layers, those with attention."""
        return self.attention_layers / self.layers

    @property
    def state_share(self) -> Column:
        """Of the layers, those with a state space."""
        return self.state_layers / self.layers

    @property
    def layer_parameters(self) -> Column:
        """Of a mean layer, without its experts' products."""
        heads = self.attention_share * (self.qkv_width + self.heads * self.head_dim)
        states = self.state_share * (self.state_inner + self.state_width)
        dense = self.dense_share * (self.ups + 1) * self.ffn
        shared = (1 - self.dense_share) * (self.expert_ups + 1) * self.shared_ffn
        return self.hidden * (heads + states + dense + shared)

    @property
    def expert_parameters(self) -> Column:
        """Of all experts of a mean layer."""
        each = (self.expert_ups + 1) * self.expert_hidden * self.expert_ffn
        return (1 - self.dense_share) * self.experts * each

    @property
    def device_parameters(self) -> Column:
        """Parameters of the fullest stage, unsharded: its layers, and an embedding."""
        layers = np.ceil(self.layers / self.pp)
        dense = (layers * self.layer_parameters + self.vocabulary * self.hidden) / self.tp
        return dense + layers * self.expert_parameters / self.ep


def _chosen(values: Mapping[str, float], kinds: tuple[str, ...], which: Column) -> Column:
    return np.array([values[kind] for kind in kinds])[which.astype(np.intp)]
