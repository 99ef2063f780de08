"""Converters of layers: matrix products, convolutions, norms, attention, losses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from meshwright.capture.aten.call import AtenCall, Converter
from meshwright.capture.program import Value

_REDUCTIONS = ("none", "mean", "sum")
_CONVOLUTIONS = (
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
)  # fmt: skip
_UPSAMPLINGS = (
    ("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("bicubic", 2),
    ("trilinear", 3),
)  # fmt: skip


def _linear(call: AtenCall) -> None:
    inputs = [call.args["input"], call.args["weight"], call.args.get("bias")]
    call.op("linear", [v for v in inputs if v is not None], weight_layout="nk")


def _matmul(call: AtenCall) -> None:
    other = call.args["mat2"] if "mat2" in call.args else call.args["other"]
    call.op("matmul", [call.args["self"], other])


def _addmm(call: AtenCall) -> None:
    bias, a, b = (call.args[name] for name in ("self", "mat1", "mat2"))
    if call.args["beta"] != 1 or call.args["alpha"] != 1:
        return call.unknown()
    if b.is_weight and bias.rank == 1:
        return call.op("linear", [a, b, bias], weight_layout="kn")
    return call.op("add", [call.step("matmul", [a, b], call.out.shape), bias])


def _batched_sum(call: AtenCall) -> None:
    """baddbmm: beta * self + alpha * (batch1 @ batch2)."""
    addend, a, b = (call.args[name] for name in ("self", "batch1", "batch2"))
    product = call.step("matmul", [a, b], call.out.shape)
    if call.args["alpha"] != 1:
        product = call.step("mul", [product], call.out.shape, other=call.args["alpha"])
    if call.args["beta"] != 1:
        addend = call.step("mul", [addend], addend.shape, other=call.args["beta"])
    call.op("add", [product, addend])


def _attention(call: AtenCall) -> None:
    query, key, value = (call.args[name] for name in ("query", "key", "value"))
    mask, scale = call.args.get("attn_mask"), call.args.get("scale")
    attrs = {
        "causal": bool(call.args["is_causal"]),
        "scale": query.shape[-1] ** -0.5 if scale is None else scale,
    }
    if call.args["dropout_p"]:
        attrs["dropout"] = call.args["dropout_p"]
    inputs = [query, key, value, *([mask] if mask is not None else [])]
    call.op("attention", inputs, **attrs)


def _attention_kernel(call: AtenCall) -> None:
    """A backend's attention kernel; tensors saved for its backward pass are dropped."""
    call.results = call.results[:1]
    _attention(call)


def _convolution(call: AtenCall) -> None:
    x, weight, bias = call.args["input"], call.args["weight"], call.args.get("bias")
    spatial = weight.rank - 2
    padding = call.args["padding"]
    if padding == "valid":
        padding = 0
    attrs = {
        "stride": _per_dim(call.args["stride"], spatial),
        "padding": padding if padding == "same" else _per_dim(padding, spatial),
        "dilation": _per_dim(call.args["dilation"], spatial),
        "groups": call.args["groups"],
    }
    inputs = [v for v in (x, weight, bias) if v is not None]
    if x.rank != spatial + 2:
        return call.unknown()
    if call.args.get("transposed", "output_padding" in call.args):
        attrs["output_padding"] = _per_dim(call.args["output_padding"], spatial)
        return call.op("conv_transpose", inputs, **attrs)
    return call.op("conv", inputs, **attrs)


def _pool(call: AtenCall, *, kind: str, spatial: int) -> None:
    kernel = _per_dim(call.args["kernel_size"], spatial)
    stride = call.args["stride"]
    attrs = {
        "kernel": kernel,
        "stride": _per_dim(stride, spatial) if stride not in ([], None) else kernel,
        "padding": _per_dim(call.args["padding"], spatial),
    }
    if kind == "max_pool" and any(d != 1 for d in _per_dim(call.args["dilation"], spatial)):
        return call.unknown()
    if call.args.get("ceil_mode") or call.args.get("divisor_override"):
        return call.unknown()
    if kind == "avg_pool" and not call.args["count_include_pad"] and any(attrs["padding"]):
        return call.unknown()
    return call.op(kind, [call.args["self"]], **attrs)


def _adaptive_mean(call: AtenCall, *, spatial: int) -> None:
    x: Value = call.args["self"]
    target = x.shape[-spatial:]
    if any(size != 1 for size in call.args["output_size"]):
        if any(a % b for a, b in zip(target, call.out.shape[-spatial:], strict=True)):
            return call.unknown()
        kernel = [a // b for a, b in zip(target, call.out.shape[-spatial:], strict=True)]
        return call.op("avg_pool", [x], kernel=kernel, stride=kernel, padding=[0] * spatial)
    dims = list(range(x.rank - spatial, x.rank))
    return call.op("mean", [x], dims=dims, keepdim=True)


def _upsample(call: AtenCall, *, mode: str, spatial: int) -> None:
    source: Value = call.args["input"] if "input" in call.args else call.args["self"]
    scale = [a / b for a, b in zip(call.out.shape[-spatial:], source.shape[-spatial:], strict=True)]
    attrs = {"align_corners": True} if call.args.get("align_corners") else {}
    call.op(
        "upsample",
        [source],
        mode=mode,
        scale=[int(s) if s.is_integer() else s for s in scale],
        **attrs,
    )


def _selective_scan(call: AtenCall) -> None:
    call.op("selective_scan", [call.args[name] for name in ("x", "dt", "a", "b", "c")])


def _embedding(call: AtenCall) -> None:
    attrs = {"sparse": True} if call.args.get("sparse") else {}
    call.op("embedding", [call.args["weight"], call.args["indices"]], **attrs)


def _layer_norm(call: AtenCall) -> None:
    inputs = [call.args["input"], call.args.get("weight"), call.args.get("bias")]
    call.op(
        "layer_norm",
        [v for v in inputs if v is not None],
        dims=len(call.args["normalized_shape"]),
        eps=call.args["eps"],
    )


def _rms_norm(call: AtenCall) -> None:
    x, weight, eps = (call.args.get(name) for name in ("input", "weight", "eps"))
    if x is None or weight is None or eps is None:
        return call.unknown()
    return call.op("rms_norm", [x, weight], dims=len(call.args["normalized_shape"]), eps=eps)


def _batch_norm(call: AtenCall) -> None:
    names = ("input", "weight", "bias", "running_mean", "running_var")
    inputs = [v for name in names if (v := call.args.get(name)) is not None]
    if call.args.get("weight") is None or call.args.get("bias") is None:
        return call.unknown()
    return call.op(
        "batch_norm",
        inputs,
        training=bool(call.args["training"]),
        eps=call.args["eps"],
    )


def _group_norm(call: AtenCall) -> None:
    inputs = [call.args["input"], call.args.get("weight"), call.args.get("bias")]
    if any(v is None for v in inputs):
        return call.unknown()
    return call.op(
        "group_norm",
        [v for v in inputs if v is not None],
        groups=call.args["num_groups"],
        eps=call.args["eps"],
    )


def _weight_norm(call: AtenCall) -> None:
    """Weight normalization: v * (g / |v|), with |v| over all dims but one."""
    direction, length = call.args["v"], call.args["g"]
    dims = [d for d in range(direction.rank) if d != call.args["dim"] % direction.rank]
    squares = call.step("mul", [direction, direction], direction.shape)
    total = call.step("sum", [squares], length.shape, dims=dims, keepdim=True)
    scale = call.step("div", [length, call.step("sqrt", [total], length.shape)], length.shape)
    call.op("mul", [direction, scale])


def _cross_entropy(call: AtenCall) -> None:
    """Cross entropy; torch has classes in the second dim, the canonical kind in the last."""
    logits, labels = call.args["self"], call.args["target"]
    if call.args.get("weight") is not None or call.args["label_smoothing"]:
        return call.unknown()
    if labels.dtype not in ("int64", "int32", "uint8"):
        return call.unknown()
    if logits.rank > 2:
        order = [0, *range(2, logits.rank), 1]
        logits = call.step("transpose", [logits], [logits.shape[d] for d in order], dims=order)
    return call.op(
        "cross_entropy",
        [logits, labels],
        reduction=_REDUCTIONS[call.args["reduction"]],
        ignore_index=call.args["ignore_index"],
    )


def _binary_cross_entropy(call: AtenCall) -> None:
    """relu(x) - x*y + log(1 + exp(-|x|)), which cannot overflow; -|x| = x - 2 relu(x)."""
    x, y = call.args["self"], call.args["target"]
    if call.args.get("weight") is not None or call.args.get("pos_weight") is not None:
        return call.unknown()
    positive = call.step("relu", [x], x.shape)
    twice = call.step("mul", [positive], x.shape, other=2)
    negative = call.step("sub", [x, twice], x.shape)
    power = call.step("exp", [negative], x.shape)
    one_plus = call.step("add", [power], x.shape, other=1)
    tail = call.step("log", [one_plus], x.shape)
    product = call.step("mul", [x, y], x.shape)
    linear = call.step("sub", [positive, product], x.shape)
    reduction = _REDUCTIONS[call.args["reduction"]]
    if reduction == "none":
        return call.op("add", [linear, tail])
    losses = call.step("add", [linear, tail], x.shape)
    return call.op(reduction, [losses], dims=list(range(x.rank)), keepdim=False)


def _squared_error(call: AtenCall) -> None:
    x, y = call.args["self"], call.args["target"]
    reduction = _REDUCTIONS[call.args["reduction"]]
    difference = call.step("sub", [x, y], x.shape)
    if reduction == "none":
        return call.op("pow", [difference], exponent=2)
    squares = call.step("pow", [difference], x.shape, exponent=2)
    return call.op(reduction, [squares], dims=list(range(x.rank)), keepdim=False)


def _per_dim(value: int | Sequence[int], spatial: int) -> list[int]:
    """The value of each spatial dim, from one number for all or one for each."""
    values = [value] if isinstance(value, int) else list(value)
    return values * spatial if len(values) == 1 else values


CONVERTERS: dict[str, Converter] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "mv"), _matmul),
    "addmm": _addmm,
    "baddbmm": _batched_sum,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention_kernel,
    "_scaled_dot_product_flash_attention": _attention_kernel,
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    **{
        f"{kind}_pool{n}d": partial(_pool, kind=f"{kind}_pool", spatial=n)
        for kind in ("max", "avg")
        for n in (1, 2, 3)
    },
    **{f"adaptive_avg_pool{n}d": partial(_adaptive_mean, spatial=n) for n in (1, 2, 3)},
    **{
        f"upsample_{mode}{n}d": partial(_upsample, mode=mode, spatial=n) for mode, n in _UPSAMPLINGS
    },
    "selective_scan": _selective_scan,
    "embedding": _embedding,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "_weight_norm": _weight_norm,
    "cross_entropy_loss": _cross_entropy,
    "binary_cross_entropy_with_logits": _binary_cross_entropy,
    "mse_loss": _squared_error,
}
