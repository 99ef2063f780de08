"""Rules of element-wise ops, with one input or several broadcast inputs."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, Shape, known, names

# kinds by what the backward pass needs: inputs, output, or nothing
_NEEDS_INPUT = (
    *("silu", "gelu", "log", "pow", "cos", "sin", "erf", "clamp", "abs", "square", "mish"),
    *("softplus", "elu", "leaky_relu", "hardswish", "hardsigmoid", "log1p", "tan"),
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "erfc", "lgamma"),
    *("bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1"),
    *("relu6", "selu", "softsign", "softshrink", "hardshrink", "nan_to_num"),
    *("atan2", "betainc", "hypot", "igamma", "igammac", "zeta", "squared_difference", "xdivy"),
    *("xlogy", "remainder", "fmod", "sigmoid_cross_entropy", "maximum", "minimum"),
)
_NEEDS_OUTPUT = (
    *("exp", "tanh", "sigmoid", "relu", "rsqrt", "reciprocal", "erfinv", "sqrt", "expm1"),
)
_NEEDS_NOTHING = (
    *("cast", "sign", "floor", "ceil", "round", "trunc", "logical_not", "bitwise_not"),
    *("eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "population_count"),
    *("isnan", "isinf", "isfinite", "isclose"),
    *("floor_div", "trunc_div", "gcd", "nextafter", "full_like", "stop_gradient"),
)


def broadcast_term(shape: Shape, out: Shape, factors: list[str]) -> str:
    """The term of an input that is broadcast from the right to an output."""
    if len(shape) > len(out):
        raise ValueError(f"{list(shape)} cannot be broadcast to {list(out)}")
    behind = len(out) - len(shape)
    return " ".join(
        "1" if size == 1 and full != 1 else name
        for name, size, full in zip(factors[behind:], shape, out[behind:], strict=True)
    )


def broadcast(ports: RuleInputs) -> tuple[list[str], str]:
    """Terms of the inputs broadcast from the right, and of the output."""
    out = ports.outputs[0]
    factors = names("d", len(out))
    return [broadcast_term(shape, out, factors) for shape in ports.inputs], " ".join(factors)


def pointwise(
    linear: str = "none", saves_inputs: tuple[int, ...] | None = None, saves_output: bool = False
) -> Builder:
    """An element-wise op.

    linear: none, first, second, each (a product), jointly (a sum) or ends (the first two).
    """

    def build(ports: RuleInputs) -> Known:
        terms, out = broadcast(ports)
        count = len(ports.inputs)
        groups: tuple[tuple[int, ...], ...] = {
            "none": (),
            "first": ((0,),) if count else (),
            "second": ((1,),) if count > 1 else (),
            "each": tuple((i,) for i in range(count)),
            "jointly": (tuple(range(count)),) if count else (),
            "ends": ((0, 1),),
        }[linear]
        if linear == "jointly" and count == 1:
            groups = ()
        saved = None if saves_inputs is None else tuple(i for i in saves_inputs if i < count)
        return known(
            f"{', '.join(terms)} -> {out}",
            "memory",
            linear=groups,
            saves_inputs=saved,
            saves_outputs=(0,) if saves_output else (),
        )

    return build


def cast(ports: RuleInputs) -> Known:
    """A cast to another float is linear, rounding to integers is not."""
    to = str(ports.attrs.get("dtype", "float32"))
    return pointwise("first" if "float" in to else "none", saves_inputs=())(ports)


def dropout(ports: RuleInputs) -> Known:
    """A second output is the mask, of the input's shape; a mask packed to bits has no rule.

    The backward pass needs the mask alone. Without a mask output the mask is generated again from
    the seed.
    """
    if any(shape != ports.inputs[0] for shape in ports.outputs):
        raise ValueError("the output and its mask have the shape of the input")
    term = " ".join(names("d", len(ports.inputs[0])))
    outs = ", ".join([term] * len(ports.outputs))
    scalars = ", " * (len(ports.inputs) - 1)
    linear = ((0,),) if len(ports.outputs) == 1 else ()
    masks = tuple(range(1, len(ports.outputs)))
    return known(
        f"{term}{scalars} -> {outs}",
        "memory",
        linear=linear,
        saves_inputs=(),
        saves_outputs=masks,
    )


def dropout_mask(ports: RuleInputs) -> Known:
    """x and a mask of its shape."""
    if ports.inputs[1] != ports.inputs[0]:
        raise ValueError("the mask has the shape of the input; unpack its bits")
    return pointwise("first", saves_inputs=(1,))(ports)


def channel_wise(linear: tuple[tuple[int, ...], ...]) -> Builder:
    """x with one number for each place of attrs `dim` (1, or the only dim), or one for all."""

    def build(ports: RuleInputs) -> Known:
        rank = len(ports.inputs[0])
        dim = int(ports.attrs.get("dim", min(1, rank - 1))) % rank
        factors = names("d", rank)
        (size,) = ports.inputs[1]
        channel_term = "1" if size == 1 and ports.inputs[0][dim] != 1 else factors[dim]
        term = " ".join(factors)
        return known(
            f"{term}, {channel_term} -> {term}",
            "memory",
            linear=linear,
            saves_inputs=() if linear else None,
        )

    return build


def swiglu(ports: RuleInputs) -> Known:
    """Two halves of a dim, the first one gated by its sigmoid."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    if ports.inputs[0][dim] != 2 * ports.outputs[0][dim]:
        raise ValueError("the output is half as long as the input")
    input_term = " ".join(f"(p! {f})" if i == dim else f for i, f in enumerate(names("d", rank)))
    return known(f"{input_term} -> {' '.join(names('d', rank))}", "memory")


def polar(ports: RuleInputs) -> Known:
    """Magnitude and angle to pairs of a real and an imaginary part."""
    pair = RuleInputs(ports.inputs, [ports.outputs[0][:-1]], ports.attrs)
    terms, out = broadcast(pair)
    return known(f"{', '.join(terms)} -> {out} c!", "memory", linear=((0,),))


def assign(ports: RuleInputs) -> Known:
    """The first input takes the values of the second input."""
    if ports.outputs[0] != ports.inputs[0]:
        raise ValueError("an assignment has the shape of what is assigned to")
    return pointwise("second", saves_inputs=())(ports)


def fault_injection(ports: RuleInputs) -> Known:
    """One element is damaged; its place and step are integers that all devices have."""
    term = " ".join(names("d", len(ports.inputs[0])))
    rest = [" ".join(f"w{i}_{d}!" for d in range(len(s))) for i, s in enumerate(ports.inputs)]
    return known(f"{', '.join([term, *rest[1:]])} -> {term}", "memory", saves_inputs=())


POINTWISE: dict[str, Builder] = {
    **{kind: pointwise() for kind in _NEEDS_INPUT},
    **{kind: pointwise(saves_inputs=(), saves_output=True) for kind in _NEEDS_OUTPUT},
    **{kind: pointwise(saves_inputs=()) for kind in _NEEDS_NOTHING},
    "neg": pointwise("first", saves_inputs=()),
    "masked_fill": pointwise(saves_inputs=(1,)),
    "where": pointwise(saves_inputs=(0,)),
    "cast": cast,
    "dropout": dropout,
    "dropout_mask": dropout_mask,
    "add": pointwise("jointly", saves_inputs=()),
    "sub": pointwise("jointly", saves_inputs=()),
    "mul": pointwise("each"),
    "mul_no_nan": pointwise("each"),
    "div": pointwise("first"),
    "div_no_nan": pointwise("first"),
    "addcmul": pointwise(saves_inputs=(1, 2)),
    "lerp": pointwise("ends"),
    "assign": assign,
    "bias_add": channel_wise(((0, 1),)),
    "prelu": channel_wise(()),
    "swiglu": swiglu,
    "polar": polar,
    "fault_injection": fault_injection,
}
