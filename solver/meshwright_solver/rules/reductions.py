"""Rules of reductions and of cumulative ops.

Sums stay partial. In all other reductions a device reduces its own part, and one number (or a
number and its place) for every result is exchanged: `^`. The same holds for cumulative ops, whose
parts need the totals of the parts before them.
"""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def _reduced_dims(ports: RuleInputs) -> set[int]:
    """attrs `dims`, all dims where absent."""
    rank = len(ports.inputs[0])
    dims = ports.attrs.get("dims", ports.attrs.get("dim"))
    dims = [dims] if isinstance(dims, int) else dims
    return {int(d) % max(rank, 1) for d in (range(rank) if dims is None else dims)}


def _reduction_terms(ports: RuleInputs, mark: str) -> tuple[str, str]:
    """Terms of the input and of every output."""
    rank = len(ports.inputs[0])
    gone = _reduced_dims(ports)
    factors = names("d", rank)
    input_term = " ".join(f"{f}{mark}" if i in gone else f for i, f in enumerate(factors))
    outs = []
    for shape in ports.outputs:
        one = "1" if len(shape) == rank else ""
        parts = [one if i in gone else f for i, f in enumerate(factors)]
        outs.append(" ".join(part for part in parts if part))
    return input_term, ", ".join(outs)


def total(ports: RuleInputs) -> Known:
    input_term, output_terms = _reduction_terms(ports, "")
    return known(f"{input_term} -> {output_terms}", "memory", linear=((0,),), saves_inputs=())


def whole(ports: RuleInputs) -> Known:
    input_term, output_terms = _reduction_terms(ports, "^")
    return known(f"{input_term} -> {output_terms}", "memory", saves_inputs=(0,))


def extreme(ports: RuleInputs) -> Known:
    """A reduction whose gradient goes to the extreme, so it needs input and output."""
    input_term, output_terms = _reduction_terms(ports, "^")
    return known(f"{input_term} -> {output_terms}", "memory", saves_inputs=(0,), saves_outputs=(0,))


def squares(ports: RuleInputs) -> Known:
    """A sum of squares of each input."""
    terms = [" ".join(names("d", len(shape))) for shape in ports.inputs]
    return known(f"{', '.join(terms)} -> {', ' * (len(ports.outputs) - 1)}", "memory")


def cumulative(linear: tuple[tuple[int, ...], ...] = (), *, saves_outputs: bool = False) -> Builder:
    """A cumulative op along attrs `dim`; every output has the input's shape."""

    def build(ports: RuleInputs) -> Known:
        rank = len(ports.inputs[0])
        dim = int(ports.attrs.get("dim", -1)) % rank
        term = " ".join(f"{f}^" if i == dim else f for i, f in enumerate(names("d", rank)))
        return known(
            f"{term} -> {', '.join([term] * len(ports.outputs))}",
            "memory",
            linear=linear,
            saves_inputs=() if linear or saves_outputs else (0,),
            saves_outputs=(len(ports.outputs) - 1,) if saves_outputs else (),
        )

    return build


def trace(ports: RuleInputs) -> Known:
    """The sum of a diagonal of two dims; each part of either dim has a part of the sum."""
    rank = len(ports.inputs[0])
    gone = {int(d) % rank for d in ports.attrs.get("dims", [0, 1])}
    if len(gone) != 2:
        raise ValueError("a diagonal lies in two dims")
    factors = names("d", rank)
    free = " ".join(f for i, f in enumerate(factors) if i not in gone)
    return known(
        f"{' '.join(factors)} -> {free}", "memory", linear=((0,),), saves_inputs=(), flops=0
    )


def ordered(ports: RuleInputs) -> Known:
    """sort: elements move along attrs `dim`, which is not sharded."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    factors = names("d", rank)
    input_term = " ".join(f"{f}!" if i == dim else f for i, f in enumerate(factors))
    outs = []
    for shape in ports.outputs:
        factor = factors[dim] if shape == ports.inputs[0] else f"k{dim}!"
        outs.append(" ".join(factor if i == dim else f for i, f in enumerate(factors)))
    inputs, places = _saved_for_places(ports)
    notation = f"{input_term} -> {', '.join(outs)}"
    return known(notation, "memory", saves_inputs=inputs, saves_outputs=places)


def top(ports: RuleInputs) -> Known:
    """topk: each part of attrs `dim` sends its best elements, which are compared again."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    if ports.outputs[0] == ports.inputs[0]:
        return ordered(ports)
    factors = names("d", rank)
    input_term = " ".join(f"{f}^" if i == dim else f for i, f in enumerate(factors))
    output_term = " ".join(f"k{i}!" if i == dim else f for i, f in enumerate(factors))
    inputs, places = _saved_for_places(ports)
    return known(
        f"{input_term} -> {', '.join([output_term] * len(ports.outputs))}",
        "memory",
        saves_inputs=inputs,
        saves_outputs=places,
        candidates=ports.outputs[0][dim],
    )


def _saved_for_places(ports: RuleInputs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Saved inputs and outputs that determine the places of the gradient: places, else values."""
    return ((), (1,)) if len(ports.outputs) > 1 else ((0,), ())


REDUCTIONS: dict[str, Builder] = {
    "sum": total,
    "mean": total,
    **dict.fromkeys(("amax", "amin", "prod"), extreme),
    **dict.fromkeys(("any", "all", "argmax", "argmin", "var"), whole),
    "max_with_index": whole,
    "min_with_index": whole,
    "l2_loss": squares,
    "square_sum_all": squares,
    "cumsum": cumulative(((0,),)),
    "cumprod": cumulative(),
    "cummax": cumulative(saves_outputs=True),
    "cummin": cumulative(saves_outputs=True),
    "trace": trace,
    "sort": ordered,
    "topk": top,
}
