"""Primitives that are layers: products, convolutions, windows, reductions, reading by number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.program import Value


def _turned(call: NodeCall, value: Value, order: Sequence[int]) -> Value:
    if list(order) == list(range(value.rank)):
        return value
    return call.step("transpose", [value], [value.shape[d] for d in order], dims=list(order))


def _shaped(call: NodeCall, value: Value, shape: Sequence[int]) -> Value:
    return value if value.shape == tuple(shape) else call.step("reshape", [value], shape)


def _dot(call: NodeCall) -> None:
    """Summed dims last on the left and first on the right, common ones in front of both."""
    left, right = call.value(0), call.value(1)
    (left_summed, right_summed), (left_batch, right_batch) = call.attrs["dimension_numbers"]
    is_last = tuple(left_summed) == (left.rank - 1,)
    if right.role == "parameter" and right.rank == 2 and len(right_summed) == 1 and is_last:
        layout = "kn" if right_summed[0] == 0 else "nk"
        return call.op("linear", [left, right], weight_layout=layout)
    rows = [d for d in range(left.rank) if d not in (*left_summed, *left_batch)]
    columns = [d for d in range(right.rank) if d not in (*right_summed, *right_batch)]
    lead = [left.shape[d] for d in left_batch]
    depth = math.prod(left.shape[d] for d in left_summed)
    wide = math.prod(right.shape[d] for d in columns)
    a = _turned(call, left, [*left_batch, *rows, *left_summed])
    b = _turned(call, right, [*right_batch, *right_summed, *columns])
    # without common dims the rows stay apart, as in a product of torch
    kept = [left.shape[d] for d in rows]
    kept = [math.prod(kept)] if lead else kept
    a = _shaped(call, a, [*lead, *kept, depth])
    b = _shaped(call, b, [*lead, depth, wide])
    if (*lead, *kept, wide) == call.out.shape:
        return call.op("matmul", [a, b])
    made = call.step("matmul", [a, b], [*lead, *kept, wide], call.out.dtype)
    return call.op("reshape", [made])


def _convolution(call: NodeCall) -> None:
    """Dims in the order of torch: batch, channels, space; out channels, in channels, space."""
    numbers, pairs = call.attrs["dimension_numbers"], call.attrs["padding"]
    if any(d != 1 for d in call.attrs["lhs_dilation"]) or call.attrs["batch_group_count"] != 1:
        return call.unknown()
    x = _turned(call, call.value(0), numbers.lhs_spec)
    weight = _turned(call, call.value(1), numbers.rhs_spec)
    padding = [before for before, _ in pairs]
    if any(before != behind for before, behind in pairs):
        x = _padded(call, x, pairs)
        padding = [0] * len(pairs)
    shape = [call.out.shape[d] for d in numbers.out_spec]
    made = call.step(
        "conv",
        [x, weight],
        shape,
        call.out.dtype,
        stride=list(call.attrs["window_strides"]),
        padding=padding,
        dilation=list(call.attrs["rhs_dilation"]),
        groups=call.attrs["feature_group_count"],
    )
    back = sorted(range(len(shape)), key=lambda place: numbers.out_spec[place])
    return call.op("transpose", [made], dims=back)


def _padded(call: NodeCall, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    whole = [(0, 0), (0, 0), *pairs]
    shape = [size + a + b for size, (a, b) in zip(x.shape, whole, strict=True)]
    pads = [list(pair) for pair in whole]
    return call.step("pad", [x], shape, pads=pads, mode="constant", value=0)


def _window(call: NodeCall, *, kind: str) -> None:
    """Of [batch, space, channels] or [batch, channels, space]; a sum is a mean times its size."""
    window, strides = call.attrs["window_dimensions"], call.attrs["window_strides"]
    pairs, rank = call.attrs["padding"], call.x.rank
    dilated = [*call.attrs["base_dilation"], *call.attrs["window_dilation"]]
    last = window[1] != 1
    space = list(range(1, rank - 1) if last else range(2, rank))
    outside = [d for d in range(rank) if d not in space]
    whole = all(window[d] == strides[d] == 1 and pairs[d] == (0, 0) for d in outside)
    even = all(a == b for a, b in pairs)
    if not whole or not even or any(d != 1 for d in dilated) or not 3 <= rank <= 5:
        return call.unknown()
    order = [0, rank - 1, *space] if last else list(range(rank))
    made = call.step(
        kind,
        [_turned(call, call.x, order)],
        [call.out.shape[d] for d in order],
        kernel=[window[d] for d in space],
        stride=[strides[d] for d in space],
        padding=[pairs[d][0] for d in space],
    )
    if kind == "avg_pool":
        made = call.step("mul", [made], made.shape, other=math.prod(window))
    back = sorted(range(rank), key=lambda place: order[place])
    return call.op("transpose", [made], dims=back)


def _reduced(call: NodeCall, *, kind: str) -> None:
    call.op(kind, [call.x], dims=sorted(call.attrs["axes"]), keepdim=False)


def _place(call: NodeCall, *, kind: str) -> None:
    (dim,) = call.attrs["axes"]
    call.op(kind, [call.x], dim=dim, keepdim=False)


def _cumulative(call: NodeCall) -> None:
    if call.attrs.get("reverse"):
        return call.unknown()
    return call.op("cumsum", [call.x], dim=call.attrs["axis"])


def _top(call: NodeCall) -> None:
    dim = call.attrs.get("axis", -1) % call.x.rank
    call.op("topk", [call.x], k=call.attrs["k"], dim=dim)


def _gather(call: NodeCall) -> None:
    """Rows of a table, and places along the last dim; any other form keeps its name."""
    x, index = call.value(0), call.value(1)
    numbers, sizes = call.attrs["dimension_numbers"], tuple(call.attrs["slice_sizes"])
    lead, read = index.rank - 1, tuple(numbers.start_index_map)
    if read != tuple(numbers.collapsed_slice_dims) or len(read) != 1:
        return call.unknown()
    flat = _shaped(call, index, index.shape[:-1])
    rows = tuple(range(lead, lead + x.rank - 1))
    if read == (0,) and sizes == (1, *x.shape[1:]) and tuple(numbers.offset_dims) == rows:
        if x.role == "parameter" and x.rank == 2:
            return call.op("embedding", [x, flat])
        return call.op("index", [x, flat], dims=[0])
    others = tuple(range(x.rank - 1))
    along = read == (x.rank - 1,) and tuple(numbers.operand_batching_dims) == others
    same = tuple(numbers.start_indices_batching_dims) == others and lead == x.rank
    if along and same:
        return call.op("gather", [x, flat], dim=x.rank - 1)
    return call.unknown()


_REDUCTIONS = {
    "reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_prod": "prod",
    "reduce_and": "all", "reduce_or": "any",
}  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "reduce_window_max": partial(_window, kind="max_pool"),
    "reduce_window_sum": partial(_window, kind="avg_pool"),
    **{name: partial(_reduced, kind=kind) for name, kind in _REDUCTIONS.items()},
    "argmax": partial(_place, kind="argmax"),
    "argmin": partial(_place, kind="argmin"),
    "cumsum": _cumulative,
    "top_k": _top,
    "gather": _gather,
}
