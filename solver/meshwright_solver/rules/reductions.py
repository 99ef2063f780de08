"""Rules of reductions and of what walks along a dim.

Sums stay partial. Of all others a device reduces its own part, and one number (or a number and its
place) for every result goes round: `^`. So it is with cumulative ops, whose parts need what those
before them come to.
"""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def _gone(ports: RuleInputs) -> set[int]:
    """attrs dims, all where absent."""
    rank = len(ports.inputs[0])
    dims = ports.attrs.get("dims", ports.attrs.get("dim"))
    dims = [dims] if isinstance(dims, int) else dims
    return {int(d) % max(rank, 1) for d in (range(rank) if dims is None else dims)}


def _reduced(ports: RuleInputs, mark: str) -> tuple[str, str]:
    """Terms of the input and of every output."""
    rank = len(ports.inputs[0])
    gone = _gone(ports)
    factors = names("d", rank)
    given = " ".join(f"{f}{mark}" if i in gone else f for i, f in enumerate(factors))
    outs = []
    for shape in ports.outputs:
        kept = "1" if len(shape) == rank else ""
        left = [kept if i in gone else f for i, f in enumerate(factors)]
        outs.append(" ".join(part for part in left if part))
    return given, ", ".join(outs)


def total(ports: RuleInputs) -> Known:
    given, made = _reduced(ports, "")
    return known(f"{given} -> {made}", "memory", linear=((0,),), saves_inputs=())


def whole(ports: RuleInputs) -> Known:
    given, made = _reduced(ports, "^")
    return known(f"{given} -> {made}", "memory", saves_inputs=(0,))


def extreme(ports: RuleInputs) -> Known:
    """A reduction whose gradient goes by what it found: it needs input and output."""
    given, made = _reduced(ports, "^")
    return known(f"{given} -> {made}", "memory", saves_inputs=(0,), saves_outputs=(0,))


def squares(ports: RuleInputs) -> Known:
    """A sum of squares of each input."""
    terms = [" ".join(names("d", len(shape))) for shape in ports.inputs]
    return known(f"{', '.join(terms)} -> {', ' * (len(ports.outputs) - 1)}", "memory")


def cumulative(linear: tuple[tuple[int, ...], ...] = (), *, saves_outputs: bool = False) -> Builder:
    """Along attrs dim, every output of the input's shape."""

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
    """The sum of a diagonal of two dims: each part of either has a part of it."""
    rank = len(ports.inputs[0])
    gone = {int(d) % rank for d in ports.attrs.get("dims", [0, 1])}
    if len(gone) != 2:
        raise ValueError("a diagonal lies in two dims")
    factors = names("d", rank)
    left = " ".join(f for i, f in enumerate(factors) if i not in gone)
    return known(
        f"{' '.join(factors)} -> {left}", "memory", linear=((0,),), saves_inputs=(), flops=0
    )


def ordered(ports: RuleInputs) -> Known:
    """sort: places change along attrs dim, which is not sharded."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    factors = names("d", rank)
    given = " ".join(f"{f}!" if i == dim else f for i, f in enumerate(factors))
    outs = []
    for shape in ports.outputs:
        own = factors[dim] if shape == ports.inputs[0] else f"k{dim}!"
        outs.append(" ".join(own if i == dim else f for i, f in enumerate(factors)))
    inputs, places = _saved_for_places(ports)
    notation = f"{given} -> {', '.join(outs)}"
    return known(notation, "memory", saves_inputs=inputs, saves_outputs=places)


def top(ports: RuleInputs) -> Known:
    """topk: each part of attrs dim sends its own best, which are compared once more."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    if ports.outputs[0] == ports.inputs[0]:
        return ordered(ports)
    factors = names("d", rank)
    given = " ".join(f"{f}^" if i == dim else f for i, f in enumerate(factors))
    made = " ".join(f"k{i}!" if i == dim else f for i, f in enumerate(factors))
    inputs, places = _saved_for_places(ports)
    return known(
        f"{given} -> {', '.join([made] * len(ports.outputs))}",
        "memory",
        saves_inputs=inputs,
        saves_outputs=places,
        candidates=ports.outputs[0][dim],
    )


def _saved_for_places(ports: RuleInputs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Inputs and outputs that say where the gradient goes: places, or values to find them again."""
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
