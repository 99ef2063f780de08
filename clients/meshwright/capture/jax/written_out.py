"""What jax.numpy and jax.nn write out in primitives, as the one op that it is."""

from __future__ import annotations

import math

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


def recognise_means(program: Program) -> None:
    """A sum over its number of elements is a mean."""
    upstream = Upstream(program)
    for node in program.nodes:
        divided = upstream.scalar(node.output, "div")
        found = None if divided is None else _reduced(upstream, divided[0], "sum")
        if divided is None or found is None:
            continue
        summed, keepdim = found
        x, dims = summed.inputs[0], list(summed.attrs["dims"])
        if math.isclose(divided[1], math.prod(x.shape[d] for d in dims), rel_tol=1e-6):
            node.kind, node.inputs = "mean", [x]
            node.attrs = {"dims": dims, "keepdim": keepdim}


def recognise_softmax(program: Program) -> None:
    """exp(x - max(x)) over its own sum is a softmax."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind != "div" or len(node.inputs) != 2:
            continue
        powers, total = node.inputs
        summed = _reduced(upstream, total, "sum")
        raised = upstream.made_by(powers, "exp")
        less = None if raised is None else upstream.made_by(raised.inputs[0], "sub")
        if summed is None or less is None or summed[0].inputs[0] is not powers:
            continue
        if len(less.inputs) != 2 or not summed[1] or len(summed[0].attrs["dims"]) != 1:
            continue
        x, (dim,) = less.inputs[0], summed[0].attrs["dims"]
        if _is_largest(upstream, less.inputs[1], x, dim) and x.shape == node.output.shape:
            node.kind, node.inputs, node.attrs = "softmax", [x], {"dim": dim}


def _is_largest(upstream: Upstream, value: Value, x: Value, dim: int) -> bool:
    """Whether a value is the maximum of x along a dim, which it keeps; at least -inf."""
    opened = upstream.made_by(value, "reshape")
    inner = value if opened is None else opened.inputs[0]
    bounded = upstream.made_by(inner, "maximum")
    if bounded is not None:
        if bounded.attrs.get("other") != "-inf":
            return False
        inner = bounded.inputs[0]
    found = upstream.made_by(inner, "amax")
    kept = tuple(1 if d == dim else size for d, size in enumerate(x.shape))
    return (
        found is not None
        and found.inputs[0] is x
        and list(found.attrs["dims"]) == [dim]
        and value.shape == kept
    )


def _reduced(upstream: Upstream, value: Value, kind: str) -> tuple[Node, bool] | None:
    """The reduction that makes a value, and whether the dims that it is over stay as ones."""
    found = upstream.made_by(value, kind)
    if found is not None:
        return found, bool(found.attrs["keepdim"])
    opened = upstream.made_by(value, "reshape")
    found = None if opened is None else upstream.made_by(opened.inputs[0], kind)
    if found is None:
        return None
    x, dims = found.inputs[0], found.attrs["dims"]
    kept = tuple(1 if d in dims else size for d, size in enumerate(x.shape))
    return (found, True) if value.shape == kept else None
