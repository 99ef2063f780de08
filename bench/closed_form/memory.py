"""Memory of a run's fullest device in closed form: states, activations, logits, what is reserved.

Activations as in Korthikanti et al. 2022 (arXiv:2205.05198), section 4, from the same list of saved
tensors, with the model's own widths: 34 bytes a token and hidden number for GPT's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.closed_form.runs import FULL, PRODUCTS, SELECTIVE, Column, Runs

MASTER_BYTES = 4.0  # of a parameter in float32, where products read 16 bits
MOMENT_BYTES = 8.0  # Adam's two in float32
# published: Transformer Engine keeps a layer's weights in 8 bits too, and transposed
EIGHT_BIT_BYTES = 2.0
# published: Megatron-LM adds gradients up in float32 unless told otherwise; PyTorch FSDP and
# PaddleNLP in the parameters' type, NeMo's recipes too
GRADIENT_BYTES = {
    "eager": 2.0, "fsdp": 2.0, "zero": 2.0, "megatron": 4.0, "nemo": 2.0, "compiled": 4.0,
    "paddle": 2.0, "other": 2.0,
}  # fmt: skip
# logits in 16 bits, in float32, and its gradient; a fused loss writes that in their place
FUSED_LOGIT_BYTES = 4.0
LOGIT_BYTES = {
    "eager": 10.0, "fsdp": 10.0, "zero": 6.0, "megatron": 10.0, "nemo": 10.0, "compiled": 6.0,
    "paddle": 10.0, "other": 10.0,
}  # fmt: skip
# chosen: layers whose gathered parameters lie in memory at once: one is read, one is fetched;
# where tensors are gathered one by one, the largest, a third of a GPT's layer
GATHERED_LAYERS = 2.0
LARGEST_TENSOR = 1 / 3
# chosen: a CUDA context, buffers of NCCL's groups, workspaces
CONTEXT_BYTES = 1.5 * 2**30
FRAGMENTED = 0.03  # chosen: share of what is allocated that lies between blocks
# chosen: what used memory shows beside it: blocks that the allocator keeps for later, buckets
CACHED_BYTES = 2 * 2**30
CACHED = 0.09


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of the fullest device; arrays, one entry a run.

    gathered: parameters and gradients that ZeRO's third stage puts together. needed: without what
    cannot be done, to hold against a device's memory; used: what the device then shows as used.
    """

    states: Column
    gathered: Column
    activations: Column
    logits: Column
    needed: Column
    used: Column


def memory(runs: Runs) -> Memory:
    """What each run takes: the first rank, which has most microbatches in flight, or the last."""
    states = _states(runs)
    a_layer = _saved_bytes(runs)
    part = (_input_bytes(runs) + a_layer) / 3  # outputs of half of the products, and of attention
    kinds = [runs.recompute == kind for kind in (FULL, PRODUCTS)]
    kept = np.select(kinds, [_input_bytes(runs), part], a_layer)
    saved = kept * np.ceil(runs.layers / runs.pp)
    made_again = np.where((runs.recompute == FULL) | (runs.recompute == PRODUCTS), a_layer, 0.0)
    first = saved * _in_flight(runs) + made_again
    last = saved + made_again + _logits(runs)
    activations = np.where(runs.pp > 1, np.maximum(first, last), first)
    logits = np.where(runs.pp > 1, 0.0, _logits(runs))
    gathered = _gathered(runs)
    allocated = states + gathered + activations + logits
    needed = allocated * (1 + FRAGMENTED) + CONTEXT_BYTES
    used = np.minimum(
        needed + CACHED * allocated + CACHED_BYTES, np.maximum(needed, runs.memory_bytes)
    )
    return Memory(states, gathered, activations, logits, needed, used)


def _states(runs: Runs) -> Column:
    """Parameters, gradients and Adam's state, sharded as ZeRO's stage says."""
    parts = [np.where(runs.zero >= stage, runs.sharding_group, 1.0) for stage in (3, 2, 1)]
    master = np.where(runs.number_bytes < MASTER_BYTES, MASTER_BYTES, 0.0)
    a_parameter = runs.number_bytes / parts[0] + runs.gradient_bytes / parts[1]
    a_parameter = a_parameter + (master + MOMENT_BYTES) / parts[2]
    copies = np.where(runs.eight_bit > 0, EIGHT_BIT_BYTES / parts[0], 0.0)
    return runs.device_parameters * (a_parameter + copies)


def _gathered(runs: Runs) -> Column:
    """What ZeRO's third stage gathers: parameters ahead of a layer, its gradient after it."""
    layer = (runs.layer_parameters + runs.expert_parameters / runs.ep) / runs.tp
    gathered = np.where(runs.per_tensor > 0, LARGEST_TENSOR, GATHERED_LAYERS)
    reduced = np.where(runs.per_tensor > 0, LARGEST_TENSOR, 1.0)
    held = layer * runs.number_bytes * (gathered + reduced)
    return np.where((runs.zero >= 3) & (runs.sharding_group > 1), held, 0.0)


def _saved_bytes(runs: Runs) -> Column:
    """What a mean layer saves of one microbatch."""
    hidden, heads = runs.hidden, runs.heads * runs.head_dim
    keys = runs.kv_heads * runs.head_dim
    # halves of a number's bytes that a product reads
    product = np.where(runs.eight_bit > 0, 1.0, 2.0)
    # inputs of two norms, of the first products of attention and feed-forward part
    whole = (4 + 2 * product) * hidden / runs.sequence_parts
    attention = runs.attention_share * (2 * (heads + 2 * keys) + product * heads)
    attention = attention + runs.state_share * (2 * runs.state_width + product * runs.state_inner)
    dense = runs.dense_share * (2 * runs.ups + product) * runs.ffn
    dense = dense + np.where(runs.flash > 0, 0.0, 2 * hidden)  # masks of two dropouts
    ups = 2 * runs.expert_ups + product
    expert = runs.top_k * ((2 + product) * runs.expert_hidden + ups * runs.expert_ffn)
    routed = expert + ups * runs.shared_ffn
    each = whole + (attention + dense + (1 - runs.dense_share) * routed) / runs.tp
    scores = 5 * runs.attention_share * runs.heads * runs.sequence / runs.tp
    kept = each + np.where((runs.flash > 0) | (runs.recompute == SELECTIVE), 0.0, scores)
    return runs.tokens * kept * runs.number_bytes / 2


def _input_bytes(runs: Runs) -> Column:
    """A layer's input, of one microbatch."""
    return runs.number_bytes * runs.tokens * runs.hidden / runs.sequence_parts


def _in_flight(runs: Runs) -> Column:
    """Microbatches whose activations the first rank holds, in parts where it has many stages."""
    depth = np.minimum(runs.pp, runs.microbatches)
    interleaved = runs.pp * (1 + (runs.pp - 1) / (runs.pp * runs.stages_per_rank))
    return np.where(runs.stages_per_rank > 1, np.minimum(interleaved, runs.pp * 2), depth)


def _logits(runs: Runs) -> Column:
    return runs.logit_bytes * runs.tokens * runs.vocabulary / runs.tp
