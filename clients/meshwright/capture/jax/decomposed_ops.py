"""Recognition of ops that jax.numpy and jax.nn decompose into primitives."""

from __future__ import annotations

import math

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


def recognize_means(program: Program) -> None:
    """Convert a sum divided by its number of elements to a mean."""
    upstream = Upstream(program)
    for node in program.nodes:
        count = node.attrs.get("other") if node.kind == "div" and len(node.inputs) == 1 else None
        reduction = None if count is None else _match_reduction(upstream, node.inputs[0], "sum")
        if count is None or reduction is None:
            continue
        sum_node, keepdim = reduction
        x, dims = sum_node.inputs[0], list(sum_node.attrs["dims"])
        if math.isclose(count, math.prod(x.shape[d] for d in dims), rel_tol=1e-6):
            node.kind, node.inputs = "mean", [x]
            node.attrs = {"dims": dims, "keepdim": keepdim}


def recognize_softmax(program: Program) -> None:
    """Convert exp(x - max(x)) divided by its sum to a softmax."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind != "div" or len(node.inputs) != 2:
            continue
        powers, total = node.inputs
        sum_match = _match_reduction(upstream, total, "sum")
        exp_node = upstream.producer(powers, "exp")
        sub_node = None if exp_node is None else upstream.producer(exp_node.inputs[0], "sub")
        if sum_match is None or sub_node is None or sum_match[0].inputs[0] is not powers:
            continue
        if len(sub_node.inputs) != 2 or not sum_match[1] or len(sum_match[0].attrs["dims"]) != 1:
            continue
        x, (dim,) = sub_node.inputs[0], sum_match[0].attrs["dims"]
        if _is_largest(upstream, sub_node.inputs[1], x, dim) and x.shape == node.output.shape:
            node.kind, node.inputs, node.attrs = "softmax", [x], {"dim": dim}


def _is_largest(upstream: Upstream, value: Value, x: Value, dim: int) -> bool:
    """Whether a value is the maximum of x along a dim with keepdim, bounded below by -inf."""
    view = upstream.producer(value, "reshape")
    inner = value if view is None else view.inputs[0]
    bound = upstream.producer(inner, "maximum")
    if bound is not None:
        if bound.attrs.get("other") != "-inf":
            return False
        inner = bound.inputs[0]
    maximum = upstream.producer(inner, "amax")
    reduced_shape = tuple(1 if d == dim else size for d, size in enumerate(x.shape))
    return (
        maximum is not None
        and maximum.inputs[0] is x
        and list(maximum.attrs["dims"]) == [dim]
        and value.shape == reduced_shape
    )


def _match_reduction(upstream: Upstream, value: Value, kind: str) -> tuple[Node, bool] | None:
    """The reduction that produces a value, and whether it keeps the reduced dims."""
    reduction = upstream.producer(value, kind)
    if reduction is not None:
        return reduction, bool(reduction.attrs["keepdim"])
    view = upstream.producer(value, "reshape")
    reduction = None if view is None else upstream.producer(view.inputs[0], kind)
    if reduction is None:
        return None
    x, dims = reduction.inputs[0], reduction.attrs["dims"]
    reduced_shape = tuple(1 if d in dims else size for d, size in enumerate(x.shape))
    return (reduction, True) if value.shape == reduced_shape else None
