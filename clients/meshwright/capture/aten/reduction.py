"""Converters of reductions, scans and sorts."""

from __future__ import annotations

import math
from functools import partial

from meshwright.capture.aten.call import AtenCall, Converter, dims_of
from meshwright.capture.program import Value


def _reduce(call: AtenCall, *, kind: str) -> None:
    source: Value = call.args["self"]
    if call.args.get("dtype") is not None:
        source = call.cast(source, call.out.dtype)
    call.op(
        kind,
        [source],
        dims=dims_of(call.args.get("dim"), source.rank),
        keepdim=bool(call.args.get("keepdim", False)),
    )


def _max_or_min(call: AtenCall, *, kind: str, index: str) -> None:
    source: Value = call.args["self"]
    if "other" in call.args:
        return call.op("maximum" if kind == "amax" else "minimum", [source, call.args["other"]])
    if "dim" not in call.args:
        return call.op(kind, [source], dims=dims_of(None, source.rank), keepdim=False)
    dims, keepdim = dims_of(call.args["dim"], source.rank), bool(call.args["keepdim"])
    best, place = call.results
    call.results = [best]
    call.op(kind, [source], dims=dims, keepdim=keepdim)
    call.results = [place]
    call.op(index, [source], dim=dims[0], keepdim=keepdim)
    return call.alias(best, place)


def _argmax_or_argmin(call: AtenCall, *, kind: str) -> None:
    source: Value = call.args["self"]
    if call.args.get("dim") is None:
        return call.unknown()
    (dim,) = dims_of(call.args["dim"], source.rank)
    return call.op(kind, [source], dim=dim, keepdim=bool(call.args["keepdim"]))


def _vector_norm(call: AtenCall) -> None:
    source: Value = call.args["self"]
    if call.args["ord"] != 2:
        return call.unknown()
    squares = call.step("mul", [source, source], source.shape)
    total = call.step(
        "sum",
        [squares],
        call.out.shape,
        dims=dims_of(call.args.get("dim"), source.rank),
        keepdim=bool(call.args["keepdim"]),
    )
    return call.op("sqrt", [total])


def _variance(call: AtenCall) -> None:
    source: Value = call.args["self"]
    dims = dims_of(call.args.get("dim"), source.rank)
    mean_shape = tuple(1 if dim in dims else size for dim, size in enumerate(source.shape))
    mean = call.step("mean", [source], mean_shape, dims=dims, keepdim=True)
    centered = call.step("sub", [source, mean], source.shape)
    squares = call.step("mul", [centered, centered], source.shape)
    keepdim = bool(call.args.get("keepdim", False))
    correction = call.args.get("correction", 1 if call.args.get("unbiased", True) else 0)
    count = math.prod(source.shape[dim] for dim in dims)
    if not correction:
        return call.op("mean", [squares], dims=dims, keepdim=keepdim)
    total = call.step("sum", [squares], call.out.shape, dims=dims, keepdim=keepdim)
    return call.op("div", [total], other=count - correction)


def _softmax(call: AtenCall, *, kind: str) -> None:
    source: Value = call.cast(call.args["self"], call.out.dtype)
    call.op(kind, [source], dim=call.args["dim"] % source.rank)


def _topk(call: AtenCall) -> None:
    if not call.args["largest"]:
        return call.unknown()
    source: Value = call.args["self"]
    return call.op("topk", [source], k=call.args["k"], dim=call.args["dim"] % source.rank)


def _sort(call: AtenCall) -> None:
    source: Value = call.args["self"]
    call.op(
        "sort",
        [source],
        dim=call.args["dim"] % source.rank,
        descending=bool(call.args["descending"]),
    )


def _cumsum(call: AtenCall) -> None:
    source: Value = call.args["self"]
    call.op("cumsum", [source], dim=call.args["dim"] % source.rank)


CONVERTERS: dict[str, Converter] = {
    **{k: partial(_reduce, kind=k) for k in ("sum", "mean", "amax", "amin", "prod", "any", "all")},
    "max": partial(_max_or_min, kind="amax", index="argmax"),
    "min": partial(_max_or_min, kind="amin", index="argmin"),
    "argmax": partial(_argmax_or_argmin, kind="argmax"),
    "argmin": partial(_argmax_or_argmin, kind="argmin"),
    "linalg_vector_norm": _vector_norm,
    "var": _variance,
    "softmax": partial(_softmax, kind="softmax"),
    "_softmax": partial(_softmax, kind="softmax"),
    "log_softmax": partial(_softmax, kind="log_softmax"),
    "_log_softmax": partial(_softmax, kind="log_softmax"),
    "topk": _topk,
    "sort": _sort,
    "cumsum": _cumsum,
}
