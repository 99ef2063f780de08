"""Converters of operators that move elements or create tensors."""

from __future__ import annotations

from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.program import Value


def _reshape(call: NodeCall) -> None:
    call.op("reshape", [call.x])


def _transpose(call: NodeCall) -> None:
    order = call.attrs.get("perm", range(call.x.rank - 1, -1, -1))
    call.op("transpose", [call.x], dims=[int(dim) for dim in order])


def _expand(call: NodeCall) -> None:
    if call.x.shape == call.out.shape:
        return call.alias(call.x)
    return call.op("expand", [call.x])


def _concat(call: NodeCall) -> None:
    values = call.present(*range(len(call.inputs)))
    if len(values) == 1:
        return call.alias(values[0])
    return call.op("concat", values, dim=call.attrs["axis"] % call.out.rank)


def _split(call: NodeCall) -> None:
    dim = call.attrs.get("axis", 0) % call.x.rank
    if len(call.results) == 1:
        return call.alias(call.x)
    return call.op("split", [call.x], dim=dim, sizes=[result.shape[dim] for result in call.results])


def _slice(call: NodeCall) -> None:
    """A slice of several dims as one slice per dim."""
    starts, ends = call.list_of("starts", 1), call.list_of("ends", 2)
    if starts is None or ends is None:
        return call.unknown()
    axes = call.list_of("axes", 3) or list(range(len(starts)))
    steps = call.list_of("steps", 4) or [1] * len(starts)
    if any(step < 1 for step in steps):
        return call.unknown()
    value = call.x
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        value = _slice_dim(call, value, axis % call.x.rank, first, last, step)
    return call.alias(value)


def _slice_dim(call: NodeCall, value: Value, dim: int, first: int, last: int, step: int) -> Value:
    extent = value.shape[dim]
    start, end = (min(max(p + extent if p < 0 else p, 0), extent) for p in (first, last))
    if (start, end, step) == (0, extent, 1):
        return value
    shape = list(value.shape)
    shape[dim] = max(0, -(-(end - start) // step))
    return call.step("slice", [value], shape, dim=dim, start=start, end=end, step=step)


def _gather(call: NodeCall) -> None:
    """A gather: an embedding for rows of a parameter, a slice for one constant index."""
    x, dim = call.x, call.attrs.get("axis", 0) % call.x.rank
    row = call.scalar(1)
    if row is not None:
        place = int(row) % x.shape[dim]
        return call.op("reshape", [_slice_dim(call, x, dim, place, place + 1, 1)])
    index = call.value(1)
    if x.role == "parameter" and x.rank == 2 and dim == 0:
        return call.op("embedding", [x, index])
    return call.op("index_select", [x, index], dim=dim)


def _gather_elements(call: NodeCall) -> None:
    axis = call.attrs.get("axis", 0) % call.x.rank
    call.op("gather", [call.value(0), call.value(1)], dim=axis)


def _scatter(call: NodeCall) -> None:
    kinds = {"none": "scatter", "add": "scatter_add"}
    how = call.attrs.get("reduction", "none")
    if how not in kinds:
        return call.unknown()
    return call.op(kinds[how], call.present(0, 1, 2), dim=call.attrs.get("axis", 0) % call.x.rank)


def _scatter_nd(call: NodeCall) -> None:
    reduce = {"none": "update", "add": "add"}.get(call.attrs.get("reduction", "none"))
    if reduce is None:
        return call.unknown()
    return call.op("scatter_nd", call.present(0, 1, 2), reduce=reduce)


def _pad(call: NodeCall) -> None:
    pads = call.list_of("pads", 1)
    value = call.attrs.get("value", call.scalar(2) if call.present(2) else 0)
    if pads is None or value is None or call.present(3) or call.attrs.get("mode") == "wrap":
        return call.unknown()
    pairs = [list(pair) for pair in zip(pads[: call.x.rank], pads[call.x.rank :], strict=True)]
    if any(amount < 0 for pair in pairs for amount in pair):
        return call.unknown()
    mode = {"edge": "replicate"}.get(call.attrs.get("mode", "constant"), call.attrs.get("mode"))
    return call.op("pad", [call.x], pads=pairs, mode=mode or "constant", value=value)


def _tile(call: NodeCall) -> None:
    """Tile: a new dim before each repeated dim, expanded and merged."""
    repeats = call.list_of("repeats", 1)
    if repeats is None:
        return call.unknown()
    pairs = list(zip(repeats, call.x.shape, strict=True))
    unsqueezed = call.step("reshape", [call.x], [n for _, size in pairs for n in (1, size)])
    expanded = call.step("expand", [unsqueezed], [n for pair in pairs for n in pair])
    return call.op("reshape", [expanded])


def _constant_of_shape(call: NodeCall) -> None:
    value = call.attrs.get("value", 0)
    call.op("full", [], value=value)


def _range(call: NodeCall) -> None:
    start, end, step = (call.scalar(place) for place in range(3))
    if start is None or end is None or step is None:
        return call.unknown()
    return call.op("arange", [], start=start, end=end, step=step)


def _one_hot(call: NodeCall) -> None:
    values = call.numbers.get(2)
    last = call.attrs.get("axis", -1) in (-1, call.out.rank - 1)
    if not last or values is None or list(values.reshape(-1)) != [0, 1]:
        return call.unknown()
    hot = call.step("one_hot", [call.x], call.out.shape, "int64", classes=call.out.shape[-1])
    return (
        call.alias(hot)
        if call.out.dtype == "int64"
        else call.op("cast", [hot], dtype=call.out.dtype)
    )


def _triangle(call: NodeCall) -> None:
    diagonal = call.scalar(1) if call.present(1) else 0
    if diagonal is None:
        return call.unknown()
    return call.op("triu" if call.attrs.get("upper", 1) else "tril", [call.x], diagonal=diagonal)


CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
    "Transpose": _transpose,
    "Expand": _expand,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": lambda call: call.op("gather_nd", call.present(0, 1)),
    "ScatterElements": _scatter,
    "ScatterND": _scatter_nd,
    "Pad": _pad,
    "Tile": _tile,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "OneHot": _one_hot,
    "Trilu": _triangle,
}
