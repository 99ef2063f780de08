"""Ops on what one rank holds of their inputs.

As a rule that is the op itself on smaller tensors. Others differ where an axis lies on what they
sum, count or index:

linear, conv         what is summed in parts adds its bias once: on the first rank
mean                 is over all elements, of which a rank has some
embedding, gather    of rows (places) in parts: those of other ranks count for nothing
attention            of query rows in parts: a causal mask as those rows see it, chunk by chunk
cross_entropy        mean over the labels of all ranks; classes in parts by maximum and sum
norms, softmax       statistics over all parts of what they normalise
split                lengths of the part
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from meshwright.capture.interpreter import Run, results_of
from meshwright.runtime.op_axes import on_dims, on_reused, on_summed
from meshwright.runtime.ordered import Turn
from meshwright.runtime.torch.class_parts import rows_of_class_parts
from meshwright.runtime.torch.collectives import Collectives
from meshwright.runtime.torch.statistics import NORMALISED
from meshwright.runtime.torch.turns import turned
from meshwright.schema import Axis, Mesh, OpPlan
from meshwright.schema.notation import Segments, Term

T = torch.Tensor


@dataclass(frozen=True)
class LocalOp:
    """One op on one rank: its run on local inputs, and which axes lie on what. chunks: in how many
    the rows of its causal mask are loaded, where that is not by true positions."""

    run: Run
    planned: OpPlan
    terms: tuple[Term, ...]
    whole_shapes: Sequence[tuple[int, ...]]  # of its inputs
    collectives: Collectives
    chunks: int | None = None

    @property
    def mesh(self) -> Mesh:
        return self.collectives.mesh

    def axes(self, dims: Sequence[Segments]) -> tuple[Axis, ...]:
        """The axes on some dims of the rule, slowest first of each factor."""
        return on_dims(self.planned, dims)

    def part(self, axes: Sequence[Axis]) -> int:
        """Which of the parts over these axes this rank has."""
        index = 0
        for axis in axes:
            index = index * self.mesh.size((axis,)) + self.collectives.at[axis]
        return index

    @cached_property
    def summed(self) -> tuple[Axis, ...]:
        """The axes on what the op sums."""
        return on_summed(self.planned)


def run_local(op: LocalOp) -> Sequence[T]:
    """What a rank makes of its parts of the inputs."""
    kernel = LOCAL.get(op.run.op.kind)
    if kernel is None or not op.terms:
        return results_of(op.run)
    made = kernel(op)
    return made if isinstance(made, (list, tuple)) else [made]


def _with_bias(op: LocalOp) -> Sequence[T]:
    if len(op.run.inputs) < 3 or not op.summed:
        return results_of(op.run)
    # times zero elsewhere, so that the backward pass has the same steps on all ranks
    bias = op.run.inputs[2] * float(op.part(op.summed) == 0)
    return results_of(replace(op.run, inputs=[*op.run.inputs[:2], bias]))


def _mean(op: LocalOp) -> T:
    dims = op.run.attrs["dims"]
    if not dims:
        return op.run.x
    count = prod(op.whole_shapes[0][d] for d in dims)
    part: T = op.run.x.sum(dim=dims, keepdim=op.run.attrs["keepdim"]) / count
    return part


def _split(op: LocalOp) -> Sequence[T]:
    dim = op.run.attrs["dim"]
    return torch.split(op.run.x, [shape[dim] for shape in op.run.shapes], dim)


def _embedding(op: LocalOp) -> T:
    table, ids = op.run.inputs
    axes = op.axes(op.terms[0][:1])
    if not axes:
        return F.embedding(ids, table)
    own = ids - op.part(axes) * table.shape[0]
    is_here = (own >= 0) & (own < table.shape[0])
    rows: T = F.embedding(own.where(is_here, 0), table) * is_here[..., None]
    return rows


def _gather(op: LocalOp) -> Sequence[T]:
    x, index = op.run.inputs
    dim = op.run.attrs["dim"]
    axes = op.axes(op.terms[0][dim : dim + 1])
    if not axes:
        return results_of(op.run)
    own = index.long() - op.part(axes) * x.shape[dim]
    is_here = (own >= 0) & (own < x.shape[dim])
    return [x.gather(dim, own.where(is_here, 0)) * is_here]


def _attention(op: LocalOp) -> Sequence[T]:
    axes = op.axes(op.terms[0][2:3])
    causal = op.run.attrs["causal"]
    if not causal or not (axes or op.chunks):
        return results_of(op.run)
    query, key, value = op.run.inputs[:3]
    count, size = query.shape[2], key.shape[2]
    first = op.part(axes) * count
    if op.chunks is None:
        starts, length = [first], count
    else:
        turn, length = Turn(size, op.chunks, is_back=True), size // op.chunks
        key, value = (turned(own, {2: turn}) for own in (key, value))
        order = turn._replace(is_back=False).places
        starts = [order[place] for place in range(first, first + count, length)]
    found: list[T] = []
    # each stretch of rows sees the keys up to its own last one
    for rows, start in zip(torch.split(query, length, dim=2), starts, strict=True):
        stop = start + rows.shape[2]
        seen = causal_lower_right(rows.shape[2], stop)
        inputs = [rows, key[:, :, :stop], value[:, :, :stop], seen]
        attrs = {**op.run.attrs, "causal": False}
        found += results_of(replace(op.run, inputs=inputs, attrs=attrs))
    return [torch.cat(found, dim=2)]


def _cross_entropy(op: LocalOp) -> T:
    logits, labels = op.run.inputs
    ignored = op.run.attrs["ignore_index"]
    classes, rows = op.axes(op.terms[0][-1:]), op.axes(op.terms[0][:-1])
    flat, own = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    if classes:
        first = op.part(classes) * logits.shape[-1]

        def reduce(part: T, how: str) -> T:
            return op.collectives.all_reduce(part, classes, op.planned.op, "own", how)

        each = rows_of_class_parts(flat, own, first, ignored, reduce)
    else:
        each = F.cross_entropy(flat, own, reduction="none", ignore_index=ignored)
    reduction = op.run.attrs["reduction"]
    if reduction == "none":
        return each.reshape(labels.shape)
    if reduction == "sum":
        return each.sum()
    count = (own != ignored).sum()
    return each.sum() / op.collectives.all_reduce(count, rows, op.planned.op, "count")


def _normalised(op: LocalOp) -> Any:
    """Statistics over the parts of other ranks too, where the dims that they are over are cut."""
    axes = on_reused(op.planned)
    if op.mesh.size(axes) == 1:
        return results_of(op.run)

    def reduce(part: T, how: str) -> T:
        return op.collectives.all_reduce(part, axes, op.planned.op, "own", how)

    return NORMALISED[op.run.op.kind](op.run, reduce, op.mesh.size(axes))


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
