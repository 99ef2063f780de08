"""Converters of calls that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from meshwright.capture.aten.call import AtenCall, Converter, plain_attr
from meshwright.capture.program import Value


def _reshape(call: AtenCall) -> None:
    call.op("reshape", [call.args["self"]])


def _permute_dims(call: AtenCall, dims: Sequence[int]) -> None:
    source: Value = call.args["self"]
    call.op("transpose", [source], dims=[dim % source.rank for dim in dims])


def _group(call: AtenCall) -> None:
    """The begin or the end of a group dim (`meshwright.capture.group_collectives`)."""
    attrs = {"group": int(call.args["size"]), "varies": bool(call.args["varies"])}
    call.op("identity", [call.args["x"]], collective=call.args["collective"], **attrs)


def _transpose(call: AtenCall) -> None:
    rank = call.args["self"].rank
    if not rank:
        return call.alias(call.args["self"])
    first, second = call.args["dim0"] % rank, call.args["dim1"] % rank
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return _permute_dims(call, order)


def _transpose_last_two(call: AtenCall) -> None:
    order = list(range(call.args["self"].rank))
    _permute_dims(call, [*order[:-2], *order[:-3:-1]])


def _permute(call: AtenCall) -> None:
    _permute_dims(call, call.args["dims"])


def _move(call: AtenCall) -> None:
    rank = call.args["self"].rank
    source, target = call.args["source"], call.args["destination"]
    sources = [d % rank for d in ([source] if isinstance(source, int) else source)]
    targets = [d % rank for d in ([target] if isinstance(target, int) else target)]
    rest = iter([d for d in range(rank) if d not in sources])
    source_of = dict(zip(targets, sources, strict=True))
    _permute_dims(call, [source_of[d] if d in source_of else next(rest) for d in range(rank)])


def _expand(call: AtenCall) -> None:
    source: Value = call.args["self"]
    if source.shape == call.out.shape:
        return call.alias(source)
    return call.op("expand", [source])


def _broadcast(call: AtenCall) -> None:
    call.alias(
        *(
            source if source.shape == call.out.shape else call.step("expand", [source], shape)
            for source, shape in ((v, call.out.shape) for v in call.args["tensors"])
        )
    )


def _repeat(call: AtenCall) -> None:
    """Tile: a new dim before each repeated dim, expanded and merged."""
    source: Value = call.args["self"]
    repeats = call.args["repeats"]
    lead = [1] * (len(repeats) - source.rank)
    if all(times == 1 for times in repeats):
        return call.op("reshape", [source])
    unsqueezed_shape = [s for size in (*lead, *source.shape) for s in (1, size)]
    tiled_shape = [
        s for t, size in zip(repeats, (*lead, *source.shape), strict=True) for s in (t, size)
    ]
    unsqueezed = call.step("reshape", [source], unsqueezed_shape)
    expanded = call.step("expand", [unsqueezed], tiled_shape)
    return call.op("reshape", [expanded])


def _repeat_interleave(call: AtenCall) -> None:
    """repeat_interleave by one number: a new dim after the repeated dim, expanded and merged."""
    source: Value = call.args["self"]
    times = call.args["repeats"]
    if not isinstance(times, int):
        return call.unknown()
    if call.args.get("dim") is None:
        source = call.step("reshape", [source], [math.prod(source.shape)])
    dim = (call.args.get("dim") or 0) % source.rank
    before, after = source.shape[: dim + 1], source.shape[dim + 1 :]
    unsqueezed = call.step("reshape", [source], [*before, 1, *after])
    expanded = call.step("expand", [unsqueezed], [*before, times, *after])
    return call.op("reshape", [expanded])


def _diff(call: AtenCall) -> None:
    """diff: differences of adjacent elements along a dim."""
    source: Value = call.args["self"]
    ends = [call.args.get(name) for name in ("prepend", "append")]
    dim = call.args["dim"] % source.rank
    if call.args["n"] != 1 or source.dtype == "bool":
        return call.unknown()
    parts = [value for value in (ends[0], source, ends[1]) if value is not None]
    shape = list(source.shape)
    shape[dim] = sum(value.shape[dim] for value in parts)
    extended = source if len(parts) == 1 else call.step("concat", parts, shape, dim=dim)
    later = _slice_of(call, extended, dim, 1, shape[dim])
    return call.op("sub", [later, _slice_of(call, extended, dim, 0, shape[dim] - 1)])


def _copy(call: AtenCall) -> None:
    """copy: the source in the shape and dtype of the target."""
    source = call.cast(call.args["src"], call.out.dtype)
    if source.shape == call.out.shape:
        return call.alias(source)
    return call.op("expand", [source])


def _slice_scatter(call: AtenCall) -> None:
    """slice_scatter: a concat of the part before, the source and the part after."""
    source: Value = call.args["self"]
    dim = call.args["dim"] % source.rank
    start, end = _bounds(call, source.shape[dim])
    if call.args["step"] != 1:
        return call.unknown()
    return _scatter_range(call, source, call.args["src"], dim, start, end)


def _select_scatter(call: AtenCall) -> None:
    """select_scatter: a slice_scatter of length one."""
    source: Value = call.args["self"]
    dim = call.args["dim"] % source.rank
    place = call.args["index"] % source.shape[dim]
    row = [1 if d == dim else size for d, size in enumerate(source.shape)]
    row_value = call.step("reshape", [call.args["src"]], row)
    return _scatter_range(call, source, row_value, dim, place, place + 1)


def _scatter_range(
    call: AtenCall, source: Value, replacement: Value, dim: int, start: int, end: int
) -> None:
    extent = source.shape[dim]
    parts = [replacement]
    if start > 0:
        parts.insert(0, _slice_of(call, source, dim, 0, start))
    if end < extent:
        parts.append(_slice_of(call, source, dim, end, extent))
    if len(parts) == 1:
        return call.alias(replacement)
    return call.op("concat", parts, dim=dim)


def _slice_of(
    call: AtenCall, source: Value, dim: int, start: int, end: int, step: int = 1
) -> Value:
    shape = list(source.shape)
    shape[dim] = -(-(end - start) // step)
    return call.step("slice", [source], shape, dim=dim, start=start, end=end, step=step)


def _slice(call: AtenCall) -> None:
    source: Value = call.args["self"]
    dim = call.args.get("dim", 0) % source.rank
    extent = source.shape[dim]
    start, end = _bounds(call, extent)
    step = call.args.get("step", 1)
    if (start, end, step) == (0, extent, 1):
        return call.alias(source)
    return call.op("slice", [source], dim=dim, start=start, end=end, step=step)


def _bounds(call: AtenCall, extent: int) -> tuple[int, int]:
    """The arguments start and end, nonnegative and within the dim."""
    start, end = call.args.get("start"), call.args.get("end")
    places = (0 if start is None else start, extent if end is None else end)
    start, end = (min(max(p + extent if p < 0 else p, 0), extent) for p in places)
    return start, end


def _narrow(call: AtenCall) -> None:
    source: Value = call.args["self"]
    dim, length = call.args["dim"] % source.rank, call.args["length"]
    start = call.args["start"]
    if isinstance(start, Value):
        return call.unknown()
    start %= source.shape[dim] or 1
    return call.op("slice", [source], dim=dim, start=start, end=start + length, step=1)


def _select(call: AtenCall) -> None:
    source: Value = call.args["self"]
    dim = call.args["dim"] % source.rank
    index = call.args["index"] % source.shape[dim]
    if source.shape[dim] == 1:
        return call.op("reshape", [source])
    return call.op("reshape", [_slice_of(call, source, dim, index, index + 1)])


def _split(call: AtenCall) -> None:
    source: Value = call.args["self"] if "self" in call.args else call.args["input"]
    dim = call.args.get("dim", 0) % source.rank
    if len(call.results) == 1:
        return call.alias(source)
    return call.op("split", [source], dim=dim, sizes=[value.shape[dim] for value in call.results])


def _unbind(call: AtenCall) -> None:
    source: Value = call.args["self"]
    dim = call.args.get("dim", 0) % source.rank
    if len(call.results) == 1:
        return call.op("reshape", [source])
    shape = [1 if d == dim else size for d, size in enumerate(source.shape)]
    parts = [Value("", tuple(shape), source.dtype) for _ in call.results]
    results, call.results = call.results, parts
    call.op("split", [source], dim=dim, sizes=[1] * len(parts))
    return call.alias(
        *(
            call.step("reshape", [part], result.shape)
            for part, result in zip(parts, results, strict=True)
        )
    )


def _concat(call: AtenCall) -> None:
    tensors: list[Value] = call.args["tensors"]
    if len(tensors) == 1:
        return call.alias(tensors[0])
    return call.op("concat", tensors, dim=call.args.get("dim", 0) % tensors[0].rank)


def _stack(call: AtenCall) -> None:
    call.op("stack", call.args["tensors"], dim=call.args.get("dim", 0) % call.out.rank)


def _pad(call: AtenCall) -> None:
    mode = call.args.get("mode", "constant")
    value = call.args.get("value") or 0
    source: Value = call.args["self"]
    before_after = [0] * (2 * source.rank)
    for place, amount in enumerate(call.args["pad"]):
        dim = source.rank - 1 - place // 2
        before_after[2 * dim + place % 2] = amount
    pairs = [before_after[i : i + 2] for i in range(0, len(before_after), 2)]
    if not any(before_after):
        return call.alias(source)
    return call.op("pad", [source], pads=pairs, mode=mode, value=plain_attr(value))


def _roll(call: AtenCall) -> None:
    source: Value = call.args["self"]
    if not call.args["dims"]:
        return call.unknown()
    return call.op(
        "roll",
        [source],
        shifts=list(call.args["shifts"]),
        dims=[dim % source.rank for dim in call.args["dims"]],
    )


def _flip(call: AtenCall) -> None:
    source: Value = call.args["self"]
    call.op("flip", [source], dims=[dim % source.rank for dim in call.args["dims"]])


def _triangle(call: AtenCall, *, kind: str) -> None:
    call.op(kind, [call.args["self"]], diagonal=call.args.get("diagonal", 0))


def _gather(call: AtenCall) -> None:
    source: Value = call.args["self"]
    call.op("gather", [source, call.args["index"]], dim=call.args["dim"] % source.rank)


def _index_select(call: AtenCall) -> None:
    source: Value = call.args["self"]
    call.op("index_select", [source, call.args["index"]], dim=call.args["dim"] % source.rank)


def _index(call: AtenCall) -> None:
    indices: list[Value | None] = call.args["indices"]
    call.op(
        "index",
        [call.args["self"], *(index for index in indices if index is not None)],
        dims=[dim for dim, index in enumerate(indices) if index is not None],
    )


def _scatter(call: AtenCall, *, kind: str) -> None:
    source: Value = call.args["self"]
    inputs = [source, call.args["index"]]
    attrs = {"dim": call.args["dim"] % source.rank}
    if "reduce" in call.args:
        return call.unknown()
    if "value" in call.args:
        return call.op(kind, inputs, **attrs, value=plain_attr(call.args["value"]))
    return call.op(kind, [*inputs, call.args["src"]], **attrs)


def _index_add(call: AtenCall) -> None:
    source: Value = call.args["self"]
    alpha = plain_attr(call.args.get("alpha", 1))
    inputs = [source, call.args["index"], call.args["source"]]
    call.op("index_add", inputs, dim=call.args["dim"] % source.rank, alpha=alpha)


_VIEWS = (
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as",
    "reshape_as",
)  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    "group": _group,
    **dict.fromkeys(_VIEWS, _reshape),
    "transpose": _transpose,
    "swapaxes": _transpose,
    "t": _transpose_last_two,
    "numpy_T": _transpose_last_two,
    "mT": _transpose_last_two,
    "permute": _permute,
    "movedim": _move,
    "expand": _expand,
    "expand_as": _expand,
    "broadcast_to": _expand,
    "broadcast_tensors": _broadcast,
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "diff": _diff,
    "copy": _copy,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "slice": _slice,
    "narrow": _narrow,
    "select": _select,
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "tensor_split"), _split),
    "unbind": _unbind,
    "cat": _concat,
    "concat": _concat,
    "stack": _stack,
    "pad": _pad,
    "constant_pad_nd": _pad,
    "roll": _roll,
    "flip": _flip,
    "tril": partial(_triangle, kind="tril"),
    "triu": partial(_triangle, kind="triu"),
    "gather": _gather,
    "index_select": _index_select,
    "index": _index,
    "scatter": partial(_scatter, kind="scatter"),
    "scatter_add": partial(_scatter, kind="scatter_add"),
    "index_add": _index_add,
}
