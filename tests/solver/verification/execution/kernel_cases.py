"""Calls of every operator kind, and what they mean in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from meshwright.capture.interpreter import KERNELS as MEANINGS
from meshwright.capture.interpreter.run import TorchOpCall
from meshwright.schema import Op
from meshwright_solver.verification.execution.kernels import Array

Torch = Callable[..., Any]
Case = tuple[str, dict[str, Any], tuple[Array, ...], tuple[tuple[int, ...], ...] | None, Any]

random = np.random.default_rng(7)


def real(*shape: int) -> Array:
    return random.standard_normal(shape)


def positive(*shape: int) -> Array:
    return random.uniform(0.2, 3.0, shape)


def whole(high: int, *shape: int) -> Array:
    return random.integers(0, high, shape)


def truth(*shape: int) -> Array:
    return random.random(shape) < 0.6


def case(
    kind: str,
    *inputs: Array,
    shapes: tuple[tuple[int, ...], ...] | None = None,
    by: Torch | None = None,
    **attrs: Any,
) -> Case:
    """by: what the kind means in torch, where the interpreter of captured graphs does not say."""
    return kind, attrs, inputs, shapes, by


def meaning(
    kind: str, attrs: Mapping[str, Any], shapes: Any, by: Torch | None
) -> Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]:
    def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if by is not None:
            made = by(*inputs)
        else:
            op = Op(name="op", kind=kind, outputs=("y",), attrs=dict(attrs))
            read = {key: _read(value) for key, value in attrs.items()}
            dtypes = [inputs[0].dtype if inputs else torch.int64]
            made = MEANINGS[kind](TorchOpCall(op, list(inputs), read, shapes or [], dtypes, None))
        return list(made) if isinstance(made, (list, tuple)) else [made]

    return run


def _read(value: Any) -> Any:
    if value in ("inf", "-inf"):
        return float(value)
    return getattr(torch, value) if value in ("float32", "float64", "int64", "bool") else value


UNARY = (
    "neg", "abs", "exp", "expm1", "relu", "tanh", "sigmoid", "cos", "sin", "tan", "erf", "sign",
    "floor", "ceil", "round", "isnan", "isinf", "logical_not", "silu", "hardswish", "hardsigmoid",
    "mish",
)  # fmt: skip
OF_POSITIVE = ("log", "log1p", "sqrt", "rsqrt")
COMPARISONS = ("eq", "ne", "lt", "gt", "le", "ge")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")

ELEMENT_WISE = [
    *(case(kind, 4 * real(3, 5)) for kind in UNARY),
    *(case(kind, positive(2, 3, 2)) for kind in OF_POSITIVE),
    *(case(kind, whole(3, 4, 1), whole(3, 2, 4, 5)) for kind in COMPARISONS),
    *(case(kind, real(4, 3), other=0) for kind in COMPARISONS),
    *(case(kind, truth(4, 1), truth(3)) for kind in LOGICAL),
    *(case(kind, whole(9, 4, 1), whole(9, 3)) for kind in BITWISE),
    *(case(kind, truth(4, 1), truth(4, 3)) for kind in BITWISE),
    case("bitwise_not", whole(5, 4)),
    case("bitwise_not", truth(5)),
    case("stop_gradient", real(3, 4), by=torch.detach),
    case("square", real(3), by=torch.square),
    case("reciprocal", positive(3), by=torch.reciprocal),
    case("gelu", 2 * real(4, 5), approximate="none"),
    case("gelu", 2 * real(4, 5), approximate="tanh"),
    case("softplus", 9 * real(20), beta=1.0, threshold=20.0),
    case("softplus", 9 * real(20), beta=2.0, threshold=3.0),
    case("elu", real(9), alpha=0.7),
    case("leaky_relu", real(9), negative_slope=0.2),
    case("clamp", real(9), min=-0.5, max=0.4),
    case("clamp", real(9), max=0.4),
    case("clamp", whole(9, 9), min=2),
    case("cast", real(4), dtype="float64"),
    case("cast", 9 * real(40), dtype="int64"),
    case("cast", truth(4), dtype="float64"),
    case("dropout", real(4), p=0.5, by=lambda x: x),
    *(case(kind, real(2, 3), real(2, 3)) for kind in ("add", "sub", "mul", "div")),
    *(case(kind, real(2, 1, 4), real(3, 1)) for kind in ("add", "sub", "mul", "div")),
    *(case(kind, real(2, 3), positive()) for kind in ("add", "sub", "mul", "div")),
    *(case(kind, real(4), other=3) for kind in ("add", "sub", "mul", "div")),
    *(case(kind, whole(5, 4), other=3) for kind in ("add", "sub", "mul")),
    *(case(kind, whole(5, 4), real(4)) for kind in ("add", "sub", "mul", "div")),
    case("pow", real(4), exponent=2),
    case("pow", real(4), exponent=-1),
    case("pow", positive(4), exponent=0.5),
    case("pow", positive(2, 3), real(3)),
    case("pow", whole(5, 4), exponent=3),
    *(case(kind, real(2, 3), real(3)) for kind in ("maximum", "minimum")),
    *(case(kind, real(2, 3), np.zeros(1)) for kind in ("maximum", "minimum")),
    case("maximum", np.array([1.0, 2.0]), np.array([1.0, 3.0])),
    case("where", truth(3, 1), real(3, 4), real(4)),
    case("where", truth(3, 4), real(3, 4), other=0.0),
    case("where", truth(3, 4), real(3, 1), self="-inf"),
    case("where", truth(3, 4), self=1.0, other=2.0, by=lambda c: torch.where(c, 1.0, 2.0).double()),
    case("masked_fill", real(2, 3), truth(3), value="-inf"),
    case("masked_fill", real(2, 3), truth(2, 1), real()),
]

REDUCTIONS = [
    *(
        case(kind, real(3, 4, 5), dims=dims, keepdim=keepdim)
        for kind in ("sum", "mean", "amax", "amin", "prod")
        for dims, keepdim in (([0], False), ([1, 2], True), ([0, 2], False), ([-1], True))
    ),
    *(case(kind, truth(3, 4), dims=[1], keepdim=False) for kind in ("any", "all")),
    case("sum", whole(9, 3, 4), dims=[0], keepdim=False),
    case("sum", real(3, 4), by=lambda x: x.sum()),
    case("mean", real(3, 4), by=lambda x: x.mean()),
    case("amax", np.ones((2, 3)), dims=[1], keepdim=False),
    case("prod", np.array([[0.0, 2.0, 3.0]]), dims=[1], keepdim=True),
    case("var", real(3, 4), dims=[1], keepdim=False, by=lambda x: x.var(1)),
    case("var", real(3, 4), dims=[0], correction=0, by=lambda x: x.var(0, correction=0)),
    *(
        case(kind, real(3, 4, 2), dim=dim, keepdim=keepdim)
        for kind in ("argmax", "argmin")
        for dim, keepdim in ((1, False), (-1, True), (None, False))
    ),
    case("cumsum", real(3, 4), dim=0),
    case("cumsum", real(3, 4), dim=-1),
    case("cumsum", whole(4, 5), dim=0),
    *(case(kind, real(2, 3, 4), dim=d) for kind in ("softmax", "log_softmax") for d in (1, -1)),
]

QUERY, KEY, VALUE = real(2, 4, 5, 6), real(2, 4, 5, 6), real(2, 4, 5, 3)
GROUP_KEY, GROUP_VALUE = real(2, 2, 7, 6), real(2, 2, 7, 6)

PRODUCTS = [
    case("linear", real(2, 3, 4), real(5, 4), weight_layout="nk"),
    case("linear", real(2, 4), real(5, 4), real(5), weight_layout="nk"),
    case("linear", real(2, 3, 4), real(4, 5), real(5), weight_layout="kn"),
    case("matmul", real(2, 3, 4), real(2, 4, 5)),
    case("matmul", real(2, 3, 4), real(4, 5)),
    case("matmul", real(3, 4), real(6, 2, 4, 5)),
    case("matmul", real(2, 1, 3, 4), real(6, 4, 5)),
    case("matmul", real(3, 4), real(4)),
    case("matmul", real(4), real(2, 4, 3)),
    case("matmul", real(4), real(4)),
    case("expert_matmul", real(3, 2, 4, 5), real(3, 5, 6), weight_layout="ehf"),
    case("expert_matmul", real(3, 2, 4, 5), real(3, 6, 5), weight_layout="efh"),
    case("embedding", real(7, 3), whole(7, 2, 9)),
    case("embedding", real(7, 3), whole(7, 4)),
    case("attention", QUERY, KEY, VALUE, causal=False, scale=0.3),
    case("attention", QUERY, KEY, VALUE, causal=True, scale=None),
    case("attention", QUERY, GROUP_KEY, GROUP_VALUE, causal=False, scale=0.5),
    case("attention", QUERY, GROUP_KEY, GROUP_VALUE, causal=True, scale=0.5),
    case("attention", QUERY, KEY, VALUE, real(5, 5), causal=False, scale=0.5),
    case("attention", QUERY, KEY, VALUE, real(2, 1, 1, 5), causal=False, scale=0.5),
    case("attention", QUERY, KEY, VALUE, np.tri(5, dtype=bool), causal=False, scale=0.5),
    case("attention", QUERY, KEY, VALUE, causal=True, scale=0.5, window=2),
    case("attention", QUERY, KEY, VALUE, causal=True, scale=0.5, chunk=2),
    case("attention", QUERY, KEY, VALUE, causal=False, scale=0.5, window=2),
    case("attention", QUERY, KEY, VALUE, real(2, 1, 1, 5), causal=False, scale=0.5, window=3),
    case("attention", QUERY, KEY, VALUE, real(5, 5), causal=True, scale=0.5),
    case("attention", QUERY, GROUP_KEY, GROUP_VALUE, real(4, 1, 7), causal=True, scale=0.5,
         window=3),
    case("attention", QUERY, KEY, VALUE, np.eye(5, dtype=bool)[::-1] | np.eye(5, dtype=bool),
         causal=True, scale=0.5),
    case("attention", QUERY, KEY, VALUE, real(5, 5), real(4), causal=True, scale=0.5, sinks=True,
         softcap=1.2),
    case("attention", QUERY, KEY, VALUE, causal=True, scale=1.5, softcap=0.8),
    case("attention", QUERY, KEY, VALUE, real(4), causal=True, scale=0.5, sinks=True),
    case("attention", QUERY, GROUP_KEY, GROUP_VALUE, real(4), causal=True, scale=0.5, sinks=True,
         window=3),
    case("attention", QUERY, KEY, VALUE, real(5, 5), real(4), causal=False, scale=0.5, sinks=True,
         softcap=1.2),
    case("rotary", real(2, 3, 5, 4), real(1, 5, 4), real(1, 5, 4)),
    case("rotary", real(2, 3, 5, 4), real(2, 5, 4), real(2, 5, 4)),
    case(
        "rotary", real(2, 3, 5, 4), real(5, 4), real(5, 4),
        by=lambda x, c, s: x * c + torch.cat((-x[..., 2:], x[..., :2]), -1) * s,
    ),
]  # fmt: skip

LABELS = np.where(truth(2, 5), whole(7, 2, 5), -100)
NORMALISED = [
    case("layer_norm", real(2, 3, 4), real(4), real(4), dims=1, eps=1e-5),
    case("layer_norm", real(2, 3, 4), real(3, 4), real(3, 4), dims=2, eps=1e-3),
    case("layer_norm", real(2, 3, 4), dims=1, eps=1e-5),
    case("rms_norm", real(2, 3, 4), real(4), dims=1, eps=1e-5),
    case("rms_norm", real(2, 3, 4), real(3, 4), dims=2, eps=1e-2),
    case("rms_norm", real(2, 3, 4), real(4), dims=1, eps=1e-5, weight_offset=1.0),
    case("rms_norm", real(2, 3, 4), dims=1, eps=1e-5),
    case("batch_norm", real(3, 4), real(4), real(4), training=True, eps=1e-5),
    case(
        "batch_norm", real(2, 3, 4, 5), real(3), real(3), real(3), positive(3),
        training=True, eps=1e-5,
    ),
    case(
        "batch_norm", real(2, 3, 4, 5), real(3), real(3), real(3), positive(3),
        training=False, eps=1e-5,
        by=lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach(), w, b, eps=1e-5),
    ),
    case("group_norm", real(2, 6, 5), real(6), real(6), groups=3, eps=1e-5),
    case("group_norm", real(2, 6, 2, 3), real(6), real(6), groups=2, eps=1e-5),
    *(
        case("cross_entropy", real(2, 5, 7), LABELS, reduction=reduction, ignore_index=-100)
        for reduction in ("mean", "sum", "none")
    ),
    case("cross_entropy", real(6, 3), whole(3, 6), reduction="mean", ignore_index=2),
    *(
        case(
            "mse_loss", real(3, 4), real(3, 4), reduction=reduction,
            by=lambda x, y, r=reduction: F.mse_loss(x, y, reduction=r),
        )
        for reduction in ("mean", "sum", "none")
    ),
    *(
        case(
            "binary_cross_entropy", random.uniform(0.1, 0.9, (3, 4)), real(3, 4), positive(3, 4),
            reduction=reduction,
            by=lambda x, y, w, r=reduction: -(w * (y * x.log() + (1 - y) * (-x).log1p())).sum()
            / (12 if r == "mean" else 1),
        )
        for reduction in ("mean", "sum")
    ),
    case(
        "binary_cross_entropy", np.array([0.0, 1.0, 0.3]), np.array([0.0, 1.0, 1.0]),
        reduction="none",
        by=lambda x, y: F.binary_cross_entropy(x, y.detach(), reduction="none"),
    ),
]  # fmt: skip


def geometry(stride: int, padding: int | str, dilation: int, groups: int, n: int) -> dict[str, Any]:
    return {
        "stride": [stride] * n,
        "padding": padding if isinstance(padding, str) else [padding] * n,
        "dilation": [dilation] * n,
        "groups": groups,
    }


WINDOWED = [
    case("conv", real(2, 3, 9), real(4, 3, 3), **geometry(1, 1, 1, 1, 1)),
    case("conv", real(2, 4, 9), real(6, 2, 3), real(6), **geometry(2, 2, 2, 2, 1)),
    case("conv", real(2, 4, 8), real(4, 1, 3), **geometry(1, "same", 2, 4, 1)),
    case("conv", real(2, 3, 8, 7), real(4, 3, 3, 2), real(4), **geometry(2, 1, 1, 1, 2)),
    case("conv", real(2, 3, 8, 8), real(4, 3, 1, 1), **geometry(2, 0, 1, 1, 2)),
    case("conv", real(1, 6, 7, 7), real(6, 1, 3, 3), **geometry(1, 1, 1, 6, 2)),
    case("conv", real(1, 2, 5, 4, 6), real(4, 1, 3, 3, 3), **geometry(2, 1, 1, 2, 3)),
    case(
        "conv_transpose", real(2, 4, 5), real(4, 3, 2), real(3),
        **geometry(2, 0, 1, 1, 1), output_padding=[0],
    ),
    case(
        "conv_transpose", real(2, 4, 5, 4), real(4, 3, 3, 3),
        **geometry(2, 1, 1, 2, 2), output_padding=[1, 1],
    ),
    case(
        "conv_transpose", real(1, 4, 3, 3, 2), real(4, 2, 2, 2, 2), real(2),
        **geometry(2, 0, 1, 1, 3), output_padding=[0, 0, 0],
    ),
    *(
        case(kind, real(2, 3, *(7, 8, 6)[:n]), kernel=[k] * n, stride=[s] * n, padding=[p] * n)
        for kind in ("max_pool", "avg_pool")
        for n, k, s, p in ((1, 2, 2, 0), (2, 3, 2, 1), (3, 2, 2, 0), (2, 3, 1, 1))
    ),
    case("max_pool", np.zeros((1, 1, 4, 4)), kernel=[2, 2], stride=[2, 2], padding=[0, 0]),
    *(
        case("upsample", real(2, 3, *size), shapes=((2, 3, *made),), mode=mode, **more)
        for mode, size, made, more in (
            ("nearest", (3,), (6,), {}),
            ("nearest", (3, 4), (5, 9), {}),
            ("linear", (4,), (7,), {}),
            ("bilinear", (3, 4), (6, 8), {}),
            ("bilinear", (3, 4), (6, 7), {"align_corners": True}),
            ("bilinear", (6, 4), (3, 3), {}),
            ("bicubic", (4, 3), (8, 7), {}),
            ("bicubic", (4, 3), (8, 7), {"align_corners": True}),
            ("trilinear", (2, 3, 4), (4, 6, 8), {}),
        )
    ),
]  # fmt: skip

MOVED = [
    case("reshape", real(2, 6), shapes=((3, 4),)),
    case("reshape", whole(9, 1), shapes=((),)),
    case("transpose", real(2, 3, 4), dims=[2, 0, 1]),
    case("expand", real(1, 3, 1), shapes=((4, 2, 3, 5),)),
    case("expand", real(), shapes=((2, 2),)),
    case("slice", real(3, 9), dim=1, start=2, end=8, step=1),
    case("slice", real(9, 3), dim=0, start=1, end=9, step=3),
    case("split", real(3, 9), dim=1, sizes=[2, 3, 4]),
    case("split", real(3, 14), dim=1, sizes=[4, 10]),
    case("split", real(4, 3), dim=-2, sizes=[2, 2]),
    case("concat", real(2, 3), real(2, 1), real(2, 4), dim=1),
    case("concat", real(2, 6), real(2, 9), real(2, 15), dim=1),
    case("concat", whole(5, 2, 3), whole(5, 1, 3), dim=-2),
    case("stack", real(2, 3), real(2, 3), dim=1),
    case("stack", real(2, 3), real(2, 3), real(2, 3), dim=-1),
    case("pad", real(2, 3), pads=[[0, 0], [0, 1]], mode="constant", value=0.5),
    case("pad", whole(5, 2, 3), pads=[[1, 0], [2, 1]], mode="constant", value=-100.0),
    case("pad", real(2, 6), pads=[[0, 0], [-1, 2]], mode="constant", value="-inf"),
    case("pad", real(2, 6), pads=[[0, 0], [3, -2]], mode="constant", value=0.0),
    case("pad", real(2, 6), pads=[[1, 1], [-1, -2]], mode="constant", value=0.0),
    *(
        case(
            "pad", real(1, 2, 6), pads=[[0, 0], [0, 0], [2, 3]], mode=mode,
            by=lambda x, m=mode: F.pad(x, (2, 3), mode=m),
        )
        for mode in ("reflect", "replicate", "circular")
    ),
    case("roll", real(4, 5), shifts=[1, -2], dims=[0, 1]),
    case("roll", real(4, 5), shifts=[3], dims=[1]),
    case("roll", real(4, 5), shifts=[3], dims=[]),
    case("flip", real(4, 5), dims=[1]),
    case("flip", real(4, 5), dims=[0, 1]),
    *(case(kind, real(2, 4, 5), diagonal=d) for kind in ("tril", "triu") for d in (-1, 0, 2)),
    case("gather", real(4, 5), whole(5, 4, 3), dim=1),
    case("gather", real(4, 5), whole(4, 6, 2), dim=0),
    case("gather", real(3, 4, 5), whole(5, 2, 3, 5), dim=-1),
    case("index_select", real(4, 5), whole(5, 7), dim=1),
    case("index", real(4, 5, 3), whole(4, 2, 2), dims=[0]),
    case("index", real(4, 5, 3), whole(5, 6), whole(3, 6), dims=[1, 2]),
    case("scatter", real(4, 5), np.array([[0, 2], [1, 4]]), real(2, 2), dim=1),
    case("scatter", real(4, 5), np.array([[0, 2], [1, 4]]), dim=1, value=3.0),
    case("scatter_add", real(4, 5), whole(5, 4, 7), real(4, 7), dim=1),
    case("scatter_add", real(4, 5), whole(4, 3, 5), real(3, 5), dim=0),
    case("masked_scatter", real(2, 4, 3), truth(2, 4), real(2, 3, 3)),
    case("masked_scatter", real(2, 5), truth(2, 5), real(2, 2)),
    *(case("topk", real(3, 7), k=k, dim=d) for k, d in ((2, 1), (3, 0), (7, -1))),
    case("topk", real(7), k=3, dim=0, largest=False, by=lambda x: x.topk(3, largest=False)),
    *(case("sort", real(3, 7), dim=d, descending=down) for d in (0, 1) for down in (True, False)),
    case("one_hot", whole(4, 2, 3), classes=4),
    case("arange", start=2, end=11, step=3),
    case("full", shapes=((2, 3),), value=4),
]  # fmt: skip

CASES = [*ELEMENT_WISE, *REDUCTIONS, *PRODUCTS, *NORMALISED, *WINDOWED, *MOVED]


def named(value: Case) -> str:
    kind, attrs, inputs, _, _ = value
    sizes = " ".join("x".join(map(str, own.shape)) or "scalar" for own in inputs)
    return f"{kind} {sizes} {' '.join(f'{k}={v}' for k, v in attrs.items())}"
