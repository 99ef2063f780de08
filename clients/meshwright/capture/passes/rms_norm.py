"""Recognition of decomposed RMS normalization."""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


def recognize_rms_norm(program: Program) -> None:
    """Convert w * (x * rsqrt(mean(x^2) + eps)), with or without the weight w, to rms_norm.

    The attr `compute` records the inner dtype of a cast of x to a wider dtype and back. The cast
    back stands before or after the product with the weight. The attr `weight_offset` is a number
    that is added to the weight.
    """
    upstream = Upstream(program)
    for node in program.nodes:
        _match_weighted(upstream, node)
    # from the end: the cast back, before the product that it reads
    for node in reversed(program.nodes):
        if node.kind not in ("mul", "cast"):
            continue
        match = _match_normalization(upstream, node.output, node.output.dtype)
        if match is not None and match[0].shape == node.output.shape:
            _replace(node, match)


def _match_weighted(upstream: Upstream, node: Node) -> None:
    product = node.output if node.kind == "mul" else upstream.through(node.output, "cast")
    for left, normalized in upstream.pairs(product, "mul"):
        weight, offset = upstream.through(left, "cast"), 0.0
        if (shifted := upstream.scalar(weight, "add")) is not None:
            weight, offset = upstream.through(shifted[0], "cast"), shifted[1]
        if weight.role != "parameter" or weight.rank != 1:
            continue
        match = _match_normalization(upstream, normalized, node.output.dtype)
        if match is None:
            continue
        source = match[0]
        if source.shape[-1:] == weight.shape and source.shape == node.output.shape:
            _replace(node, match, weight, offset)
            return


def _replace(
    node: Node,
    match: tuple[Value, float, str | None],
    weight: Value | None = None,
    offset: float = 0.0,
) -> None:
    source, eps, compute = match
    node.kind, node.inputs = "rms_norm", [source] if weight is None else [source, weight]
    node.attrs = {
        "dims": 1,
        "eps": eps,
        **({"compute": compute} if compute else {}),
        **({"weight_offset": offset} if offset else {}),
    }


def _match_normalization(
    upstream: Upstream, normalized: Value, dtype: str
) -> tuple[Value, float, str | None] | None:
    """x, eps and the inner dtype, where the value is x * rsqrt(mean(x^2) + eps) of x in a dtype."""
    product = upstream.through(normalized, "cast")
    for wide, scale in upstream.pairs(product, "mul"):
        root = upstream.producer(scale, "rsqrt")
        shifted = None if root is None else upstream.scalar(root.inputs[0], "add")
        mean = None if shifted is None else upstream.producer(shifted[0], "mean")
        if shifted is None or mean is None or not mean.attrs["keepdim"]:
            continue
        if list(mean.attrs["dims"]) != [wide.rank - 1]:
            continue
        if not _is_square(upstream, mean.inputs[0], wide):
            continue
        source = upstream.through(wide, "cast")
        if source.dtype != dtype:
            return None
        return source, shifted[1], None if source is wide else wide.dtype
    return None


def _is_square(upstream: Upstream, value: Value, x: Value) -> bool:
    if upstream.with_number(value, "pow", 2.0, "exponent") is x:
        return True
    product = upstream.producer(value, "mul")
    return product is not None and product.inputs == [x, x]
