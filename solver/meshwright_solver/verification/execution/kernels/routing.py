"""Routing of rows to experts by number: runs of rows, gates, and the permutation and its inverse.

Expert numbers, row numbers and runs are random here. Numbers beyond the end are taken modulo the
size, and runs that do not cover the rows become runs of equal length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, NotExecutable
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient
from meshwright_solver.verification.execution.kernels.softmax import softmax_gradient, softmax_of
from meshwright_solver.verification.execution.kernels.unary import erf, sigmoid

Gradients = tuple[Array | None, ...]


def _expert_of_row(rows: int, ends: Array) -> Array:
    ends = ends.astype(np.int64)
    if (np.diff(ends, prepend=0) >= 0).all() and ends[-1] == rows:
        return np.asarray(np.searchsorted(ends, np.arange(rows), side="right"))
    return np.asarray(np.arange(rows) * len(ends) // rows)


def _grouped_matmul(call: KernelCall) -> Array:
    expert = _expert_of_row(len(call.x), call.inputs[2])
    return np.asarray(np.einsum("mk,mkn->mn", call.x, call.inputs[1][expert]))


def _grouped_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    expert = _expert_of_row(len(call.x), call.inputs[2])
    weight = np.zeros(call.inputs[1].shape)
    np.add.at(weight, expert, call.x[:, :, None] * sent[0][:, None])
    return np.einsum("mn,mkn->mk", sent[0], call.inputs[1][expert]), weight


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: np.asarray(0.5 * x * (1 + erf(x / np.sqrt(2)))),
    "fastgelu": lambda x: np.asarray(x * sigmoid(1.702 * x)),
    "silu": lambda x: np.asarray(x * sigmoid(x)),
}


def _ffn(call: KernelCall) -> Array:
    name = str(call.attrs.get("activation", "gelu"))
    if name not in _ACTIVATIONS:
        raise NotExecutable(call.kind, f"activation {name!r}; known are {', '.join(_ACTIVATIONS)}")
    first, second, *rest = call.inputs[1:]
    x = call.x.reshape(-1, call.x.shape[-1])
    if first.ndim == 3:
        expert = _expert_of_row(len(x), rest.pop(0))
    else:
        expert = np.zeros(len(x), dtype=np.int64)
        first, second, rest = first[None], second[None], [array[None] for array in rest]
    hidden = np.einsum("mk,mkf->mf", x, first[expert])
    for bias in rest[:1]:
        hidden = hidden + bias[expert]
    result = np.einsum("mf,mfn->mn", _ACTIVATIONS[name](hidden), second[expert])
    for bias in rest[1:2]:
        result = result + bias[expert]
    return np.asarray(result).reshape(call.shape)


def _expert_tokens(call: KernelCall) -> Array:
    experts = call.x.astype(np.int64) % call.shape[0]
    return np.cumsum(np.bincount(experts, minlength=call.shape[0])).astype(np.int64)


def _best_experts(call: KernelCall) -> tuple[Array, Array]:
    """Softmax over the experts, and the best experts of each row."""
    p = softmax_of(call.x, -1)
    return p, np.argsort(-p, axis=-1, kind="stable")[:, : call.shape[1]]


def _gating(call: KernelCall) -> list[Array]:
    p, best = _best_experts(call)
    weight = np.take_along_axis(p, best, axis=-1)
    if call.optional(1) is not None:
        best = np.where(call.inputs[1].astype(np.bool_)[:, None], call.x.shape[1], best)
    rows, choices = call.shape
    return [weight, best, np.arange(rows)[:, None] + rows * np.arange(choices)]


def _gating_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    p, best = _best_experts(call)
    spread = np.zeros(call.x.shape)
    np.put_along_axis(spread, best, sent[0], axis=-1)
    return (softmax_gradient(p, spread, -1),)


def _order(call: KernelCall) -> Array:
    """The row numbers of all choices, sorted by expert."""
    experts = call.inputs[2].reshape(-1)
    rows = call.inputs[1].reshape(-1).astype(np.int64) % experts.size
    return rows[np.argsort(experts, kind="stable")]


def _init_routing(call: KernelCall) -> list[Array]:
    """Expanded rows, the place of each row number, and the experts in order."""
    order = _order(call)
    place = np.zeros(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    active = call.shape[0]
    x = call.x[order % len(call.x)][:active]
    return [x, place, np.sort(call.inputs[2].reshape(-1), kind="stable").astype(np.int64)]


def _init_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    gradient = np.zeros(call.x.shape)
    np.add.at(gradient, (_order(call) % len(call.x))[: call.shape[0]], sent[0])
    return (gradient,)


def _finalize_numbers(call: KernelCall) -> tuple[Array, Array]:
    """Expanded row and expert of each choice [m, k]; rows are numbered k first."""
    rows, choices = call.inputs[-3].shape
    number = call.inputs[-2].astype(np.int64).reshape(choices, rows).T % len(call.x)
    return number, call.inputs[-1].astype(np.int64) % len(call.inputs[-4])


def _finalize(call: KernelCall) -> Array:
    """The skips plus each choice's row with its expert's bias, weighted by its scale."""
    number, expert = _finalize_numbers(call)
    bias, scale = call.inputs[-4], call.inputs[-3]
    result = ((call.x[number] + bias[expert]) * scale[..., None]).sum(axis=1)
    return np.asarray(sum(call.inputs[1:-4], result))


def _finalize_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    number, expert = _finalize_numbers(call)
    bias, scale = call.inputs[-4], call.inputs[-3]
    each = sent[0][:, None] * scale[..., None]
    rows, biases = np.zeros(call.x.shape), np.zeros(bias.shape)
    np.add.at(rows, number, each)
    np.add.at(biases, expert, each)
    scales = ((call.x[number] + bias[expert]) * sent[0][:, None]).sum(axis=-1)
    return rows, *([sent[0]] * (len(call.inputs) - 5)), biases, scales


def _route(call: KernelCall, wanted: Array) -> list[Array]:
    """Slots in the order of the tokens (attrs `drop` is sdrop), or of the choices (kdrop).

    dispatch holds the number of the token, from 1, of each expert and slot, 0 for an empty one.
    combine holds expert * (slots + 1) + slot, slots from 1; slot 0 is a dropped choice.
    """
    batch, experts, slots = call.output_shapes[0]
    dispatch = np.zeros((batch, experts, slots), dtype=np.int64)
    numbers = call.x.astype(np.int64) % experts
    combine = numbers * (slots + 1)
    _, length, choices = call.x.shape
    by_token = [(t, j) for t in range(length) for j in range(choices)]
    by_choice = [(t, j) for j in range(choices) for t in range(length)]
    taken = np.zeros((batch, experts), dtype=np.int64)
    lanes = np.arange(batch)
    for t, j in by_choice if call.attrs.get("drop", "sdrop") == "kdrop" else by_token:
        expert = numbers[:, t, j]
        here = wanted[:, t, j] & (taken[lanes, expert] < slots)
        taken[lanes[here], expert[here]] += 1
        slot = taken[lanes, expert]
        dispatch[lanes[here], expert[here], slot[here] - 1] = t + 1
        combine[here, t, j] += slot[here]
    return [dispatch, combine]


def _top_k(call: KernelCall) -> list[Array]:
    return _route(call, np.ones(call.x.shape, dtype=np.bool_))


def _top_p(call: KernelCall) -> list[Array]:
    """A choice is dropped where the choices before it have reached the threshold."""
    before = np.cumsum(call.inputs[1], axis=-1) - call.inputs[1]
    return _route(call, before < call.number("threshold", 0.5))


ROUTING: Mapping[str, OpKernel] = {
    "grouped_matmul": OpKernel(_grouped_matmul, _grouped_gradients),
    "ffn": OpKernel(_ffn, no_gradient),
    "moe_expert_tokens": OpKernel(_expert_tokens, no_gradient),
    "moe_gating_topk": OpKernel(_gating, _gating_gradients),
    "moe_init_routing": OpKernel(_init_routing, _init_gradients),
    "moe_finalize_routing": OpKernel(_finalize, _finalize_gradients),
    "topk_router": OpKernel(_top_k, no_gradient),
    "topp_router": OpKernel(_top_p, no_gradient),
}
