"""Local kernels: ops on the shards of one rank.

Most ops run on shards as on whole arrays. The others differ if a mesh axis is on a factor that they
sum over, count or index:

linear, conv         only the first rank adds the bias, because the parts are summed
mean                 divides by the number of elements of all parts
embedding, gather    rows of other ranks count as zero
attention            a causal mask or a window begins at the rank's first query row
cross_entropy        a mean over the labels of all ranks; split classes by maximum and sum
norms, softmax       statistics over all parts (sharded_statistics.py)
split                lengths of the part
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from meshwright.runtime.arrays import Array, Arrays, Reduce
from meshwright.runtime.local_op import LocalOp
from meshwright.runtime.sharded_statistics import STATISTICS
from meshwright.schema import Axis

Kernel = Callable[[Arrays, LocalOp], Any]


def run_local(arrays: Arrays, op: LocalOp) -> Sequence[Array]:
    """The shards of the outputs that a rank computes from its shards of the inputs."""
    kernel = KERNELS.get(op.call.op.kind)
    if kernel is None or not op.terms:
        return arrays.outputs(op.call)
    outputs = kernel(arrays, op)
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]


def _with_bias(arrays: Arrays, op: LocalOp) -> Sequence[Array]:
    if len(op.call.inputs) < 3 or not op.summed:
        return arrays.outputs(op.call)
    # a product instead of a branch, so that all ranks have the same backward pass
    bias = op.call.inputs[2] * (op.part(op.summed) == 0)
    return arrays.outputs(replace(op.call, inputs=[*op.call.inputs[:2], bias]))


def _mean(arrays: Arrays, op: LocalOp) -> Array:
    dims = tuple(op.call.attrs["dims"])
    if not dims:
        return op.call.x
    count = prod(op.whole_shapes[0][d] for d in dims)
    return arrays.sum(op.call.x, dims, keepdims=op.call.attrs["keepdim"]) / count


def _split(arrays: Arrays, op: LocalOp) -> Sequence[Array]:
    dim = op.call.attrs["dim"]
    return arrays.split(op.call.x, [shape[dim] for shape in op.call.shapes], dim)


def _embedding(arrays: Arrays, op: LocalOp) -> Sequence[Array]:
    table, ids = op.call.inputs
    axes = op.axes(op.terms[0][:1])
    if not axes:
        return arrays.outputs(op.call)
    index, is_here = _local_index(arrays, op, ids, axes, table.shape[0])
    return [arrays.rows(table, index) * is_here[..., None]]


def _gather(arrays: Arrays, op: LocalOp) -> Sequence[Array]:
    x, index = op.call.inputs
    dim = op.call.attrs["dim"]
    axes = op.axes(op.terms[0][dim : dim + 1])
    if not axes:
        return arrays.outputs(op.call)
    index, is_here = _local_index(arrays, op, index, axes, x.shape[dim])
    return [arrays.along(x, index, dim) * is_here]


def _local_index(
    arrays: Arrays, op: LocalOp, index: Array, axes: Sequence[Axis], length: int
) -> tuple[Array, Array]:
    """The index into the shard of this rank, and whether this rank has the position.

    The index is 0 if another rank has the position. `length` is that of the shard along the dim.
    """
    local = arrays.index(index) - op.part(axes) * length
    is_here = (local >= 0) & (local < length)
    return arrays.zero_unless(is_here, local), is_here


def _attention(arrays: Arrays, op: LocalOp) -> Sequence[Array]:
    is_cut = bool(op.axes(op.terms[0][2:3])) or op.chunks is not None
    by_position = op.call.attrs["causal"] or "window" in op.call.attrs
    if not by_position or not is_cut:
        return arrays.outputs(op.call)
    return arrays.attention(op)


def _cross_entropy(arrays: Arrays, op: LocalOp) -> Array:
    logits, labels = op.call.inputs
    ignored = op.call.attrs["ignore_index"]
    class_axes, row_axes = op.axes(op.terms[0][-1:]), op.axes(op.terms[0][:-1])
    flat, flat_labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    counted = flat_labels != ignored
    if class_axes:
        places = flat_labels - op.part(class_axes) * logits.shape[-1]
        losses = arrays.vocab_parallel_losses(flat, places, counted, _over(op, class_axes))
    else:
        losses = arrays.row_losses(flat, flat_labels, ignored)
    reduction = op.call.attrs["reduction"]
    if reduction == "none":
        return losses.reshape(labels.shape)
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / op.all_reduce(counted.sum(), row_axes, "sum", "count")


def _normalize(arrays: Arrays, op: LocalOp) -> Any:
    parts = op.mesh.size(op.reused)
    if parts == 1:
        return arrays.outputs(op.call)
    return STATISTICS[op.call.op.kind](arrays, op.call, _over(op, op.reused), parts)


def _over(op: LocalOp, axes: Sequence[Axis]) -> Reduce:
    """An all-reduce over some axes as a function of an array and the kind of reduction."""
    return lambda part, how: op.all_reduce(part, axes, how, "own")


KERNELS: Mapping[str, Kernel] = {
    "linear": _with_bias,
    "conv": _with_bias,
    "mean": _mean,
    "split": _split,
    "embedding": _embedding,
    "gather": _gather,
    "attention": _attention,
    "cross_entropy": _cross_entropy,
    **dict.fromkeys(STATISTICS, _normalize),
}
