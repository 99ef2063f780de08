"""Converters of MindSpore's operators: one op per operator, so that strategies match."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from meshwright.capture.node_arithmetic import plain
from meshwright.capture.node_call import Converter, NodeCall

_ELEMENTWISE = """
    abs: Abs; add: Add AddExt; bias_add: BiasAdd; ceil: Ceil; cos: Cos; div: Div RealDiv; eq: Equal
    erf: Erf; exp: Exp; expm1: Expm1; floor: Floor; floor_div: FloorDiv; ge: GreaterEqual
    gt: Greater; isfinite: IsFinite; le: LessEqual; log: Log; log1p: Log1p; logical_and: LogicalAnd
    logical_not: LogicalNot; logical_or: LogicalOr; lt: Less; masked_fill: MaskedFill
    maximum: Maximum; minimum: Minimum; mul: Mul Muls; ne: NotEqual; neg: Neg; pow: Pow
    reciprocal: Reciprocal; relu: ReLU; round: Round; rsqrt: Rsqrt; sigmoid: Sigmoid
    sigmoid_cross_entropy: SigmoidCrossEntropyWithLogits; sign: Sign; silu: SiLU; sin: Sin
    sqrt: Sqrt; square: Square; sub: Sub SubExt; tanh: Tanh; where: Select
"""
_REDUCTIONS = {
    "ReduceSum": "sum", "SumExt": "sum", "ReduceMean": "mean", "MeanExt": "mean",
    "ReduceMax": "amax", "ReduceMin": "amin", "ReduceProd": "prod",
}  # fmt: skip
COLLECTIVES = frozenset({
    "AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AllToAllv", "AlltoAllV",
    "AllGatherV", "ReduceScatterV", "Broadcast", "Send", "Receive", "NeighborExchange",
    "NeighborExchangeV2", "CollectiveScatter", "CollectiveGather", "Reduce", "Barrier",
    "BatchISendIRecv", "_AllSwap", "_HostAllGather", "_HostReduceScatter",
})  # fmt: skip


def _tensors(call: NodeCall) -> list[Any]:
    return [value for value in call.inputs if value is not None]


def _elementwise(call: NodeCall, *, kind: str) -> None:
    """An element-wise op; numbers become attributes, which MindSpore's strategies omit."""
    numbers = [
        call.scalar(place)
        for place, value in enumerate(call.inputs)
        if value is None and call.scalar(place) is not None
    ]
    attrs = {"other": plain(numbers[0])} if numbers and numbers[0] is not None else {}
    call.op(kind, _tensors(call), **attrs)


def _gelu(call: NodeCall) -> None:
    call.op("gelu", [call.x], approximate="sigmoid" if call.kind == "FastGeLU" else "tanh")


def _matmul(call: NodeCall) -> None:
    transposes = {
        name: True
        for place, name in ((2, "transpose_a"), (3, "transpose_b"))
        if call.scalar(place) or call.attrs.get(name)
    }
    call.op("matmul", [call.value(0), call.value(1)], **transposes)


def _gather(call: NodeCall) -> None:
    table, ids = call.value(0), call.value(1)
    axis = int(call.scalar(2) or 0) % max(table.rank, 1)
    if call.scalar(3):
        return call.unknown()
    if axis == 0 and table.rank == 2 and ids.rank > 0:
        return call.op("embedding", [table, ids])
    return call.op("index_select", [table, ids], dim=axis) if ids.rank == 1 else call.unknown()


def _transpose(call: NodeCall) -> None:
    order = call.list_of("perm", 1)
    if order is None:
        return call.unknown()
    return call.op("transpose", [call.x], dims=[dim % call.x.rank for dim in order])


def _reshape(call: NodeCall) -> None:
    call.op("reshape", [call.x])


def _cast(call: NodeCall) -> None:
    call.op("cast", [call.x], dtype=call.out.dtype)


def _reduction(call: NodeCall) -> None:
    dims = call.list_of("axis", 1)
    reduced_dims = sorted(dim % call.x.rank for dim in dims or range(call.x.rank))
    keepdim = {"keepdim": True} if call.scalar(2) or call.attrs.get("keep_dims") else {}
    call.op(_REDUCTIONS[call.kind], [call.x], dims=reduced_dims, **keepdim)


def _softmax(call: NodeCall) -> None:
    dims = call.list_of("axis", 1) or [-1]
    kind = "log_softmax" if call.kind == "LogSoftmax" else "softmax"
    call.op(kind, [call.x], dim=dims[0] % call.x.rank if len(dims) == 1 else list(dims))


def _layer_norm(call: NodeCall) -> None:
    """Layer norm without its statistics, which only the backward pass reads."""
    first_dim = int(call.scalar(3) or call.attrs.get("begin_norm_axis", -1)) % call.x.rank
    epsilon = call.scalar(5)
    eps = {} if epsilon is None else {"eps": float(epsilon)}
    count = call.x.rank - first_dim
    attrs = {**eps, **({"dims": count} if count > 1 else {})}
    call.op("layer_norm", [call.value(place) for place in range(3)], **attrs)


def _one_hot(call: NodeCall) -> None:
    axis_input = call.scalar(4)
    dim = int(call.attrs.get("axis", -1) if axis_input is None else axis_input)
    dim_attrs = {} if dim in (-1, call.x.rank) else {"dim": dim}
    call.op("one_hot", _tensors(call), classes=call.out.shape[dim], **dim_attrs)


def _cross_entropy(call: NodeCall) -> None:
    call.op("softmax_cross_entropy", [call.value(0), call.value(1)])


def _dropout(call: NodeCall) -> None:
    keep_probability = call.scalar(1)
    keep = 0.5 if keep_probability is None else float(keep_probability)
    call.op("dropout", [call.x], p=round(1 - keep, 12))


def _conv(call: NodeCall) -> None:
    rank = call.x.rank - 2
    stride, dilation = (list(call.attrs.get(name, ())) for name in ("stride", "dilation"))
    padding = list(call.attrs.get("pad_list", (0,) * 2 * rank))
    groups = int(call.attrs.get("group", 1))
    attrs: dict[str, Any] = {
        "stride": stride[-rank:],
        # both sides may differ by one; the wider side does not change the extent
        "padding": [max(padding[2 * d : 2 * d + 2]) for d in range(rank)],
    }
    if any(step != 1 for step in dilation[-rank:]):
        attrs["dilation"] = dilation[-rank:]
    if groups > 1:
        attrs["groups"] = groups
    call.op("conv", [call.value(0), call.value(1)], **attrs)


def _bind(table: str) -> dict[str, Converter]:
    converters: dict[str, Converter] = {}
    for entry in table.replace("\n", ";").split(";"):
        kind, _, names = entry.strip().partition(": ")
        for name in names.split():
            converters[name] = partial(_elementwise, kind=kind)
    return converters


CONVERTERS: Mapping[str, Converter] = {
    **_bind(_ELEMENTWISE),
    **dict.fromkeys(("GeLU", "FastGeLU"), _gelu),
    **dict.fromkeys(("MatMul", "MatMulExt", "BatchMatMul", "BatchMatMulExt"), _matmul),
    **dict.fromkeys(("Reshape", "ExpandDims", "Squeeze"), _reshape),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("OneHot", "OneHotExt"), _one_hot),
    "Gather": _gather,
    "Transpose": _transpose,
    "Cast": _cast,
    "LayerNorm": _layer_norm,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "Dropout": _dropout,
    "Conv2D": _conv,
}
# operators whose result is the first input, such as loads and dependencies
ALIASES = frozenset({"Load", "Depend", "Identity", "StopGradient"})
# operators with several results, of which only the first is supported
FIRST_ONLY = frozenset({"LayerNorm", "SoftmaxCrossEntropyWithLogits", "Dropout"})
