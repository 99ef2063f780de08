"""Converters of layers: products, convolutions, pooling, reductions and gathers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.program import Value


def _transpose(call: NodeCall, value: Value, order: Sequence[int]) -> Value:
    if list(order) == list(range(value.rank)):
        return value
    return call.step("transpose", [value], [value.shape[d] for d in order], dims=list(order))


def _reshape(call: NodeCall, value: Value, shape: Sequence[int]) -> Value:
    return value if value.shape == tuple(shape) else call.step("reshape", [value], shape)


def _dot(call: NodeCall) -> None:
    """A matmul with contracted dims last on the left and first on the right, batch dims first."""
    left, right = call.value(0), call.value(1)
    (left_contracted, right_contracted), (left_batch, right_batch) = call.attrs["dimension_numbers"]
    is_last = tuple(left_contracted) == (left.rank - 1,)
    if right.role == "parameter" and right.rank == 2 and len(right_contracted) == 1 and is_last:
        layout = "kn" if right_contracted[0] == 0 else "nk"
        return call.op("linear", [left, right], weight_layout=layout)
    rows = [d for d in range(left.rank) if d not in (*left_contracted, *left_batch)]
    columns = [d for d in range(right.rank) if d not in (*right_contracted, *right_batch)]
    lead = [left.shape[d] for d in left_batch]
    depth = math.prod(left.shape[d] for d in left_contracted)
    wide = math.prod(right.shape[d] for d in columns)
    a = _transpose(call, left, [*left_batch, *rows, *left_contracted])
    b = _transpose(call, right, [*right_batch, *right_contracted, *columns])
    # without batch dims the row dims stay separate, as in torch.matmul
    row_sizes = [left.shape[d] for d in rows]
    row_sizes = [math.prod(row_sizes)] if lead else row_sizes
    a = _reshape(call, a, [*lead, *row_sizes, depth])
    b = _reshape(call, b, [*lead, depth, wide])
    if (*lead, *row_sizes, wide) == call.out.shape:
        return call.op("matmul", [a, b])
    product = call.step("matmul", [a, b], [*lead, *row_sizes, wide], call.out.dtype)
    return call.op("reshape", [product])


def _convolution(call: NodeCall) -> None:
    """A convolution with dims in torch's order: batch, channels, space for the input."""
    numbers, pairs = call.attrs["dimension_numbers"], call.attrs["padding"]
    if any(d != 1 for d in call.attrs["lhs_dilation"]) or call.attrs["batch_group_count"] != 1:
        return call.unknown()
    x = _transpose(call, call.value(0), numbers.lhs_spec)
    weight = _transpose(call, call.value(1), numbers.rhs_spec)
    padding = [before for before, _ in pairs]
    if any(before != behind for before, behind in pairs):
        x = _pad(call, x, pairs)
        padding = [0] * len(pairs)
    shape = [call.out.shape[d] for d in numbers.out_spec]
    result = call.step(
        "conv",
        [x, weight],
        shape,
        call.out.dtype,
        stride=list(call.attrs["window_strides"]),
        padding=padding,
        dilation=list(call.attrs["rhs_dilation"]),
        groups=call.attrs["feature_group_count"],
    )
    inverse = sorted(range(len(shape)), key=lambda place: numbers.out_spec[place])
    return call.op("transpose", [result], dims=inverse)


def _pad(call: NodeCall, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    all_pairs = [(0, 0), (0, 0), *pairs]
    shape = [size + a + b for size, (a, b) in zip(x.shape, all_pairs, strict=True)]
    pads = [list(pair) for pair in all_pairs]
    return call.step("pad", [x], shape, pads=pads, mode="constant", value=0)


def _pool(call: NodeCall, *, kind: str) -> None:
    """Pooling of [batch, space, channels] or [batch, channels, space]; a sum is a scaled mean."""
    window, strides = call.attrs["window_dimensions"], call.attrs["window_strides"]
    pairs, rank = call.attrs["padding"], call.x.rank
    dilation = [*call.attrs["base_dilation"], *call.attrs["window_dilation"]]
    channels_last = window[1] != 1
    space = list(range(1, rank - 1) if channels_last else range(2, rank))
    outside = [d for d in range(rank) if d not in space]
    is_spatial = all(window[d] == strides[d] == 1 and pairs[d] == (0, 0) for d in outside)
    is_symmetric = all(a == b for a, b in pairs)
    if not is_spatial or not is_symmetric or any(d != 1 for d in dilation) or not 3 <= rank <= 5:
        return call.unknown()
    order = [0, rank - 1, *space] if channels_last else list(range(rank))
    result = call.step(
        kind,
        [_transpose(call, call.x, order)],
        [call.out.shape[d] for d in order],
        kernel=[window[d] for d in space],
        stride=[strides[d] for d in space],
        padding=[pairs[d][0] for d in space],
    )
    if kind == "avg_pool":
        result = call.step("mul", [result], result.shape, other=math.prod(window))
    inverse = sorted(range(rank), key=lambda place: order[place])
    return call.op("transpose", [result], dims=inverse)


def _reduce(call: NodeCall, *, kind: str) -> None:
    call.op(kind, [call.x], dims=sorted(map(int, call.attrs["axes"])), keepdim=False)


def _argmax_or_argmin(call: NodeCall, *, kind: str) -> None:
    (dim,) = call.attrs["axes"]
    call.op(kind, [call.x], dim=int(dim), keepdim=False)


def _cumsum(call: NodeCall) -> None:
    if call.attrs.get("reverse"):
        return call.unknown()
    return call.op("cumsum", [call.x], dim=call.attrs["axis"])


def _topk(call: NodeCall) -> None:
    dim = call.attrs.get("axis", -1) % call.x.rank
    call.op("topk", [call.x], k=call.attrs["k"], dim=dim)


def _gather(call: NodeCall) -> None:
    """A gather of table rows or along the last dim; other forms are unknown."""
    x, index = call.value(0), call.value(1)
    numbers, sizes = call.attrs["dimension_numbers"], tuple(call.attrs["slice_sizes"])
    lead, indexed = index.rank - 1, tuple(numbers.start_index_map)
    if indexed != tuple(numbers.collapsed_slice_dims) or len(indexed) != 1:
        return call.unknown()
    flat = _reshape(call, index, index.shape[:-1])
    rows = tuple(range(lead, lead + x.rank - 1))
    if indexed == (0,) and sizes == (1, *x.shape[1:]) and tuple(numbers.offset_dims) == rows:
        if x.role == "parameter" and x.rank == 2:
            return call.op("embedding", [x, flat])
        return call.op("index", [x, flat], dims=[0])
    others = tuple(range(x.rank - 1))
    is_along_last = indexed == (x.rank - 1,) and tuple(numbers.operand_batching_dims) == others
    is_batched = tuple(numbers.start_indices_batching_dims) == others and lead == x.rank
    if is_along_last and is_batched:
        return call.op("gather", [x, flat], dim=x.rank - 1)
    return call.unknown()


_REDUCTIONS = {
    "reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_prod": "prod",
    "reduce_and": "all", "reduce_or": "any",
}  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "reduce_window_max": partial(_pool, kind="max_pool"),
    "reduce_window_sum": partial(_pool, kind="avg_pool"),
    **{name: partial(_reduce, kind=kind) for name, kind in _REDUCTIONS.items()},
    "argmax": partial(_argmax_or_argmin, kind="argmax"),
    "argmin": partial(_argmax_or_argmin, kind="argmin"),
    "cumsum": _cumsum,
    "top_k": _topk,
    "gather": _gather,
}
