"""Converters of layers: products, convolutions, norms, attention, losses, reductions."""

from __future__ import annotations

from functools import partial

from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.program import Value

_MODES = {"linear": ("linear", "bilinear", "trilinear"), "nearest": ("nearest",) * 3}


def _matmul(call: NodeCall) -> None:
    call.op("matmul", [call.value(0), call.value(1)])


def _gemm(call: NodeCall) -> None:
    a, b = call.value(0), call.value(1)
    bias = call.present(2)
    scaled = call.attrs.get("alpha", 1.0) != 1 or (bias and call.attrs.get("beta", 1.0) != 1)
    if scaled or call.attrs.get("transA", 0):
        return call.unknown()
    layout = "nk" if call.attrs.get("transB", 0) else "kn"
    if b.role == "parameter" and all(value.rank == 1 for value in bias):
        return call.op("linear", [a, b, *bias], weight_layout=layout)
    if layout == "nk":
        b = call.step("transpose", [b], b.shape[::-1], dims=[1, 0])
    if not bias:
        return call.op("matmul", [a, b])
    return call.op("add", [call.step("matmul", [a, b], call.out.shape), *bias])


def _pads(call: NodeCall, spatial: int) -> list[tuple[int, int]] | None:
    """The padding before and after each spatial dim; None for automatic padding."""
    how = call.attrs.get("auto_pad", "NOTSET")
    if how == "VALID":
        return [(0, 0)] * spatial
    if how != "NOTSET":
        return None
    pads = list(call.attrs.get("pads", [0] * (2 * spatial)))
    return list(zip(pads[:spatial], pads[spatial:], strict=True))


def _pad_asymmetric(call: NodeCall, pairs: list[tuple[int, int]]) -> tuple[Value, list[int]]:
    """The input and the op's padding; asymmetric padding becomes a separate pad node."""
    if all(before == behind for before, behind in pairs):
        return call.x, [before for before, _ in pairs]
    all_pairs = [(0, 0), (0, 0), *pairs]
    shape = [size + a + b for size, (a, b) in zip(call.x.shape, all_pairs, strict=True)]
    result = call.step(
        "pad", [call.x], shape, pads=[list(pair) for pair in all_pairs], mode="constant", value=0
    )
    return result, [0] * len(pairs)


def _convolution(call: NodeCall) -> None:
    spatial = call.x.rank - 2
    pairs = _pads(call, spatial)
    if pairs is None:
        return call.unknown()
    x, padding = _pad_asymmetric(call, pairs)
    call.op("conv", [x, *call.present(1, 2)], **_window_attrs(call, spatial), padding=padding)
    return None


def _conv_transpose(call: NodeCall) -> None:
    spatial = call.x.rank - 2
    pairs = _pads(call, spatial)
    if pairs is None or any(a != b for a, b in pairs) or "output_shape" in call.attrs:
        return call.unknown()
    return call.op(
        "conv_transpose",
        call.present(0, 1, 2),
        **_window_attrs(call, spatial),
        padding=[a for a, _ in pairs],
        output_padding=list(call.attrs.get("output_padding", [0] * spatial)),
    )


def _window_attrs(call: NodeCall, spatial: int) -> dict[str, object]:
    return {
        "stride": list(call.attrs.get("strides", [1] * spatial)),
        "dilation": list(call.attrs.get("dilations", [1] * spatial)),
        "groups": call.attrs.get("group", 1),
    }


def _pool(call: NodeCall, *, kind: str) -> None:
    spatial = call.x.rank - 2
    pairs = _pads(call, spatial)
    dilated = any(d != 1 for d in call.attrs.get("dilations", []))
    if pairs is None or any(a != b for a, b in pairs) or dilated or call.attrs.get("ceil_mode"):
        return call.unknown()
    padding = [a for a, _ in pairs]
    if kind == "avg_pool" and any(padding) and not call.attrs.get("count_include_pad"):
        return call.unknown()
    if len(call.results) > 1:
        return call.unknown()
    return call.op(
        kind,
        [call.x],
        kernel=list(call.attrs["kernel_shape"]),
        stride=list(call.attrs.get("strides", [1] * spatial)),
        padding=padding,
    )


def _global_pool(call: NodeCall, *, kind: str) -> None:
    call.op(kind, [call.x], dims=list(range(2, call.x.rank)), keepdim=True)


def _resize(call: NodeCall) -> None:
    spatial = call.x.rank - 2
    mode = call.attrs.get("mode", "nearest")
    where = call.attrs.get("coordinate_transformation_mode", "half_pixel")
    if call.x.shape[:2] != call.out.shape[:2] or mode not in _MODES or not 1 <= spatial <= 3:
        return call.unknown()
    ratios = [b / a for a, b in zip(call.x.shape[2:], call.out.shape[2:], strict=True)]
    call.op(
        "upsample",
        [call.x],
        mode=_MODES[mode][spatial - 1],
        scale=[int(r) if r.is_integer() else r for r in ratios],
        **({"align_corners": True} if where == "align_corners" else {}),
    )
    return None


def _layer_norm(call: NodeCall) -> None:
    axis = call.attrs.get("axis", -1) % call.x.rank
    call.results = call.results[:1]
    call.op(
        "layer_norm",
        call.present(0, 1, 2),
        dims=call.x.rank - axis,
        eps=call.attrs.get("epsilon", 1e-5),
    )


def _rms_norm(call: NodeCall) -> None:
    axis = call.attrs.get("axis", -1) % call.x.rank
    call.op(
        "rms_norm",
        call.present(0, 1),
        dims=call.x.rank - axis,
        eps=call.attrs.get("epsilon", 1e-5),
    )


def _batch_norm(call: NodeCall) -> None:
    training = bool(call.attrs.get("training_mode", 0))
    call.results = call.results[:1]
    call.op(
        "batch_norm",
        call.present(0, 1, 2, 3, 4),
        training=training,
        eps=call.attrs.get("epsilon", 1e-5),
    )


def _group_norm(call: NodeCall) -> None:
    """Group norm; in an instance norm every channel is a group."""
    groups = call.attrs.get("num_groups", call.x.shape[1])
    call.op("group_norm", call.present(0, 1, 2), groups=groups, eps=call.attrs.get("epsilon", 1e-5))


def _softmax(call: NodeCall, *, kind: str) -> None:
    call.op(kind, [call.x], dim=call.attrs.get("axis", -1) % call.x.rank)


def _attention(call: NodeCall) -> None:
    """Attention on [batch, heads, sequence, width], without key-value caches."""
    if call.x.rank != 4 or call.present(4, 5) or call.attrs.get("softcap"):
        return call.unknown()
    call.results = call.results[:1]
    scale = call.attrs.get("scale")
    return call.op(
        "attention",
        call.present(0, 1, 2, 3),
        causal=bool(call.attrs.get("is_causal", 0)),
        scale=call.x.shape[-1] ** -0.5 if scale is None else scale,
    )


def _cross_entropy(call: NodeCall) -> None:
    """Cross entropy; ONNX has classes in the second dim, the canonical kind in the last."""
    logits, labels = call.value(0), call.value(1)
    if call.present(2) or len(call.results) > 1:
        return call.unknown()
    if logits.rank > 2:
        order = [0, *range(2, logits.rank), 1]
        logits = call.step("transpose", [logits], [logits.shape[d] for d in order], dims=order)
    return call.op(
        "cross_entropy",
        [logits, labels],
        reduction=call.attrs.get("reduction", "mean"),
        ignore_index=call.attrs.get("ignore_index", -100),
    )


def _reduce(call: NodeCall, *, kind: str) -> None:
    axes = call.list_of("axes", 1)
    if not axes and call.attrs.get("noop_with_empty_axes", 0):
        return call.alias(call.x)
    dims = sorted(a % call.x.rank for a in axes) if axes else list(range(call.x.rank))
    keepdim = bool(call.attrs.get("keepdims", 1))
    if kind not in ("l2", "squares"):
        return call.op(kind, [call.x], dims=dims, keepdim=keepdim)
    squares = call.step("mul", [call.x, call.x], call.x.shape)
    if kind == "squares":
        return call.op("sum", [squares], dims=dims, keepdim=keepdim)
    total = call.step("sum", [squares], call.out.shape, dims=dims, keepdim=keepdim)
    return call.op("sqrt", [total])


def _argmax_or_argmin(call: NodeCall, *, kind: str) -> None:
    if call.attrs.get("select_last_index"):
        return call.unknown()
    dim = call.attrs.get("axis", 0) % call.x.rank
    return call.op(kind, [call.x], dim=dim, keepdim=bool(call.attrs.get("keepdims", 1)))


def _topk(call: NodeCall) -> None:
    k = call.scalar(1)
    if k is None or not call.attrs.get("largest", 1):
        return call.unknown()
    return call.op("topk", [call.x], k=k, dim=call.attrs.get("axis", -1) % call.x.rank)


def _cumsum(call: NodeCall) -> None:
    dim = call.scalar(1)
    if dim is None or call.attrs.get("reverse") or call.attrs.get("exclusive"):
        return call.unknown()
    return call.op("cumsum", [call.x], dim=int(dim) % call.x.rank)


_REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin",
    "ReduceProd": "prod", "ReduceL2": "l2", "ReduceSumSquare": "squares",
}  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _convolution,
    "ConvTranspose": _conv_transpose,
    "MaxPool": partial(_pool, kind="max_pool"),
    "AveragePool": partial(_pool, kind="avg_pool"),
    "GlobalAveragePool": partial(_global_pool, kind="mean"),
    "GlobalMaxPool": partial(_global_pool, kind="amax"),
    "Resize": _resize,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _group_norm,
    "Softmax": partial(_softmax, kind="softmax"),
    "LogSoftmax": partial(_softmax, kind="log_softmax"),
    "Attention": _attention,
    "SoftmaxCrossEntropyLoss": _cross_entropy,
    **{name: partial(_reduce, kind=kind) for name, kind in _REDUCTIONS.items()},
    "ArgMax": partial(_argmax_or_argmin, kind="argmax"),
    "ArgMin": partial(_argmax_or_argmin, kind="argmin"),
    "TopK": _topk,
    "CumSum": _cumsum,
}
