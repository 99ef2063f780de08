"""Ops on what one device holds of their inputs.

As a rule that is the op itself on smaller arrays. Others differ where an axis lies on what they
sum, count or index:

linear, conv         what is summed in parts adds its bias once: on the first device
mean                 is over all elements, of which a device has some
embedding, gather    of rows (places) in parts: those of other devices count for nothing
attention            of query rows in parts: a causal mask as those rows see it
cross_entropy        mean over the labels of all devices; classes in parts by maximum and sum
norms, softmax       statistics over all parts of what they normalise
split                lengths of the part
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from meshwright.runtime.jax.collectives import Collectives
from meshwright.runtime.jax.kinds import Call, results_of
from meshwright.runtime.jax.kinds.layers import attention, rows_of_cross_entropy
from meshwright.runtime.jax.statistics import NORMALISED, rows_of_class_parts
from meshwright.runtime.op_axes import on_dims, on_reused, on_summed
from meshwright.schema import Axis, Mesh, OpPlan
from meshwright.schema.notation import Segments, Term

A = jax.Array
Keep = Callable[[A], A]


@dataclass(frozen=True)
class LocalOp:
    """One op on one device: its call on local inputs, and which axes lie on what.

    keep: marks what comes of other devices, so that it is not asked for twice.
    """

    call: Call
    planned: OpPlan
    terms: tuple[Term, ...]
    whole_shapes: Sequence[tuple[int, ...]]  # of its inputs
    collectives: Collectives
    keep: Keep

    @property
    def mesh(self) -> Mesh:
        return self.collectives.mesh

    def axes(self, dims: Sequence[Segments]) -> tuple[Axis, ...]:
        """The axes on some dims of the rule, slowest first of each factor."""
        return on_dims(self.planned, dims)

    def part(self, axes: Sequence[Axis]) -> A | int:
        """Which of the parts over these axes this device has."""
        return self.collectives.part(axes)

    def reduce(self, part: A, axes: Sequence[Axis], how: str = "sum") -> A:
        """A step of its own."""
        return self.keep(self.collectives.all_reduce(part, axes, how))

    @cached_property
    def summed(self) -> tuple[Axis, ...]:
        """The axes on what the op sums."""
        return on_summed(self.planned)


def run_local(op: LocalOp) -> Sequence[A]:
    """What a device makes of its parts of the inputs."""
    kernel = LOCAL.get(op.call.op.kind)
    if kernel is None or not op.terms:
        return results_of(op.call)
    made = kernel(op)
    return made if isinstance(made, (list, tuple)) else [made]


def _with_bias(op: LocalOp) -> Sequence[A]:
    if len(op.call.inputs) < 3 or not op.summed:
        return results_of(op.call)
    is_first = op.part(op.summed) == 0
    bias = op.call.inputs[2]
    bias = jnp.where(is_first, bias, jnp.zeros_like(bias))
    return results_of(replace(op.call, inputs=[*op.call.inputs[:2], bias]))


def _mean(op: LocalOp) -> A:
    dims = tuple(op.call.attrs["dims"])
    if not dims:
        return op.call.x
    count = prod(op.whole_shapes[0][d] for d in dims)
    return op.call.x.sum(axis=dims, keepdims=op.call.attrs["keepdim"]) / count


def _split(op: LocalOp) -> Sequence[A]:
    dim = op.call.attrs["dim"]
    ends = list(accumulate(shape[dim] for shape in op.call.shapes))
    return jnp.split(op.call.x, ends[:-1], axis=dim)


def _embedding(op: LocalOp) -> Sequence[A]:
    table, ids = op.call.inputs
    axes = op.axes(op.terms[0][:1])
    if not axes:
        return results_of(op.call)
    own = ids - op.part(axes) * table.shape[0]
    is_here = (own >= 0) & (own < table.shape[0])
    return [table[jnp.where(is_here, own, 0)] * is_here[..., None]]


def _gather(op: LocalOp) -> Sequence[A]:
    x, index = op.call.inputs
    dim = op.call.attrs["dim"]
    axes = op.axes(op.terms[0][dim : dim + 1])
    if not axes:
        return results_of(op.call)
    own = index - op.part(axes) * x.shape[dim]
    is_here = (own >= 0) & (own < x.shape[dim])
    return [jnp.take_along_axis(x, jnp.where(is_here, own, 0), axis=dim) * is_here]


def _attention(op: LocalOp) -> Sequence[A]:
    axes = op.axes(op.terms[0][2:3])
    if not axes or not op.call.attrs["causal"]:
        return results_of(op.call)
    return [attention(op.call, op.part(axes) * op.call.x.shape[2])]


def _cross_entropy(op: LocalOp) -> A:
    logits, labels = op.call.inputs
    ignored = op.call.attrs["ignore_index"]
    classes, rows = op.axes(op.terms[0][-1:]), op.axes(op.terms[0][:-1])
    flat, own = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    counts = own != ignored
    if classes:
        place = own - op.part(classes) * logits.shape[-1]
        each = rows_of_class_parts(
            flat, place, counts, lambda part, how: op.reduce(part, classes, how)
        )
    else:
        each = rows_of_cross_entropy(flat, own, ignored)
    reduction = op.call.attrs["reduction"]
    if reduction == "none":
        return each.reshape(labels.shape)
    if reduction == "sum":
        return each.sum()
    return each.sum() / op.reduce(counts.sum(), rows)


def _normalised(op: LocalOp) -> Any:
    """Statistics over the parts of other devices too, where the dims that they are over are cut."""
    axes = on_reused(op.planned)
    parts = op.mesh.size(axes)
    if parts == 1:
        return results_of(op.call)
    normalise = NORMALISED[op.call.op.kind]
    return normalise(op.call, lambda part, how: op.reduce(part, axes, how), parts)


LOCAL: Mapping[str, Callable[[LocalOp], Any]] = {
    "linear": _with_bias,
    "conv": _with_bias,
    "mean": _mean,
    "split": _split,
    "embedding": _embedding,
    "gather": _gather,
    "attention": _attention,
    "cross_entropy": _cross_entropy,
    **dict.fromkeys(NORMALISED, _normalised),
}
