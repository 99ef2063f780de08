"""Rules of element-wise ops, normalisations, softmax, losses and reductions."""

from __future__ import annotations

from meshwright.schema import ShardingRule
from solver.rules.known import Builder, Known, Ports, known, names

# what the backward pass of a unary op needs: its input, its output, or nothing
_NEEDS_INPUT = (
    *("silu", "gelu", "log", "pow", "sqrt", "cos", "sin", "erf", "clamp", "abs", "square", "mish"),
    *("softplus", "elu", "leaky_relu", "hardswish", "hardsigmoid", "log1p", "expm1", "tan"),
)
_NEEDS_OUTPUT = ("exp", "tanh", "sigmoid", "relu", "rsqrt", "reciprocal")
_NEEDS_NOTHING = (
    *("neg", "cast", "dropout", "sign", "floor", "ceil", "round", "logical_not", "bitwise_not"),
    *("eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "bitwise_and"),
    *("bitwise_or", "maximum", "minimum", "masked_fill", "where", "isnan", "isinf"),
)
_LINEAR_UNARY = ("neg", "dropout")


def _broadcast(ports: Ports) -> tuple[list[str], str]:
    """Terms of the inputs broadcast from the right, and of the output."""
    out = ports.outputs[0]
    factors = names("d", len(out))
    terms = []
    for shape in ports.inputs:
        own = factors[len(out) - len(shape) :]
        terms.append(
            " ".join(
                "1" if size == 1 and full != 1 else name
                for name, size, full in zip(own, shape, out[len(out) - len(shape) :], strict=True)
            )
        )
    return terms, " ".join(factors)


def pointwise(
    linear: str = "none", saves_inputs: tuple[int, ...] | None = None, saves_output: bool = False
) -> Builder:
    """An element-wise op; linear: none, first, each (a product) or jointly (a sum)."""

    def build(ports: Ports) -> Known:
        terms, out = _broadcast(ports)
        count = len(ports.inputs)
        groups: tuple[tuple[int, ...], ...] = {
            "none": (),
            "first": ((0,),) if count else (),
            "each": tuple((i,) for i in range(count)),
            "jointly": (tuple(range(count)),) if count else (),
        }[linear]
        if linear == "jointly" and count == 1:
            groups = ()
        kept = None if saves_inputs is None else tuple(i for i in saves_inputs if i < count)
        return known(
            f"{', '.join(terms)} -> {out}",
            "memory",
            linear=groups,
            saves_inputs=kept,
            saves_outputs=(0,) if saves_output else (),
        )

    return build


def cast(ports: Ports) -> Known:
    """Rounding to whole numbers is not linear, another float is."""
    to = str(ports.attrs.get("dtype", "float32"))
    return pointwise("first" if "float" in to else "none", saves_inputs=())(ports)


def _normalised(markers: str, op_inputs: int, lead: int, rank: int) -> str:
    outer = " ".join(names("b", lead))
    inner = " ".join(f"h{i}{markers}" for i in range(rank - lead))
    return ", ".join([f"{outer} {inner}", *[inner] * (op_inputs - 1)]) + f" -> {outer} {inner}"


def layer_norm(ports: Ports) -> Known:
    rank = len(ports.inputs[0])
    lead = rank - int(ports.attrs.get("dims", 1))
    return known(_normalised("^", len(ports.inputs), lead, rank), "memory", saves_inputs=(0,))


def batch_norm(ports: Ports) -> Known:
    spatial = " ".join(f"x{i}^" for i in range(len(ports.inputs[0]) - 2))
    rest = ", c" * (len(ports.inputs) - 1)
    return known(f"n^ c {spatial}{rest} -> n^ c {spatial}", "memory", saves_inputs=(0,))


def group_norm(ports: Ports) -> Known:
    spatial = " ".join(f"x{i}^" for i in range(len(ports.inputs[0]) - 2))
    groups = int(ports.attrs.get("groups", 1))
    rest = ", (g c^)" * (len(ports.inputs) - 1)
    rule = ShardingRule(
        notation=f"n (g c^) {spatial}{rest} -> n (g c^) {spatial}",
        saves_inputs=(0,),
        sizes={"g": groups},
    )
    return Known(rule, "memory")


def softmax(ports: Ports) -> Known:
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    term = " ".join(f"{name}^" if i == dim else name for i, name in enumerate(names("d", rank)))
    return known(f"{term} -> {term}", "memory", saves_inputs=(), saves_outputs=(0,))


def cross_entropy(ports: Ports) -> Known:
    lead = " ".join(names("b", len(ports.inputs[1])))
    out = "" if ports.attrs.get("reduction", "mean") != "none" else lead
    return known(f"{lead} v^, {lead} -> {out}", "memory", saves_inputs=(0, 1))


def reduction(partial: str) -> Builder:
    """A reduction over attrs dims (all where absent); partial: sum (may stay partial) or whole."""

    def build(ports: Ports) -> Known:
        rank = len(ports.inputs[0])
        dims = ports.attrs.get("dims", ports.attrs.get("dim"))
        dims = [dims] if isinstance(dims, int) else dims
        gone = {int(d) % max(rank, 1) for d in (range(rank) if dims is None else dims)}
        factors = names("d", rank)
        mark = "" if partial == "sum" else "!"
        given = " ".join(f"{f}{mark}" if i in gone else f for i, f in enumerate(factors))
        kept = len(ports.outputs[0]) == rank
        left = [("1" if kept else "") if i in gone else f for i, f in enumerate(factors)]
        return known(
            f"{given} -> {' '.join(part for part in left if part)}",
            "memory",
            linear=((0,),) if partial == "sum" else (),
            saves_inputs=() if partial == "sum" else (0,),
        )

    return build


def _mse(ports: Ports) -> Known:
    terms, out = _broadcast(Ports(ports.inputs, [ports.inputs[0]], ports.attrs))
    return (
        known(f"{', '.join(terms)} -> ", "memory")
        if not ports.outputs[0]
        else known(f"{', '.join(terms)} -> {out}", "memory")
    )


POINTWISE: dict[str, Builder] = {
    **{kind: pointwise() for kind in _NEEDS_INPUT},
    **{kind: pointwise(saves_inputs=(), saves_output=True) for kind in _NEEDS_OUTPUT},
    **{kind: pointwise(saves_inputs=()) for kind in _NEEDS_NOTHING},
    **{kind: pointwise("first", saves_inputs=()) for kind in _LINEAR_UNARY},
    "cast": cast,
    "add": pointwise("jointly", saves_inputs=()),
    "sub": pointwise("jointly", saves_inputs=()),
    "mul": pointwise("each"),
    "div": pointwise("first"),
    "rms_norm": layer_norm,
    "layer_norm": layer_norm,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "softmax": softmax,
    "log_softmax": softmax,
    "cross_entropy": cross_entropy,
    "mse_loss": _mse,
    "binary_cross_entropy": _mse,
    "sum": reduction("sum"),
    "mean": reduction("sum"),
    **{
        kind: reduction("whole") for kind in ("amax", "amin", "prod", "any", "all", "argmax", "var")
    },
}
