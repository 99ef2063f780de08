"""MindSpore: the strategy of an op as cuts, `((2, 1), (1, 4))`, or as one Layout for every input.

Cuts say into how many parts each dim of each input is split. Which device holds which part
MindSpore then decides by itself: the device matrix has one entry for every factor, in the order in
which they appear in the inputs, and one on the right for what is left. So cuts alone are exact
where the mesh's axes lie in this order (`keeps_ranks`); Layouts always are.

A rule is the notation of `OpPlan.rule`. sizes: of its factors, where they are known; a product dim
that is cut in several factors, or inside, needs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.mindspore import Alias, MindSporeLayout
from meshwright.schema import (
    Axis,
    ConversionError,
    Factor,
    Model,
    Notation,
    OpPlan,
    parse_notation,
)

Cuts = tuple[tuple[int, ...], ...]
Strategy = dict[str, tuple[Axis, ...]]
Sizes = Mapping[str, int]
Segments = tuple[tuple[Factor, ...], ...]


class OpStrategy(Model):
    """An op's strategy for MindSpore. layouts: the aliases of every input's Layout.

    keeps_ranks: the cuts alone give every rank the parts that the plan gives it.
    """

    cuts: Cuts
    layouts: tuple[tuple[Alias, ...], ...]
    keeps_ranks: bool


def to_strategy(op: OpPlan, grid: DeviceGrid, *, sizes: Sizes | None = None) -> OpStrategy:
    """The strategy of an op; ConversionError, naming the op, where MindSpore cannot say it."""
    if op.rule is None:
        raise ConversionError(
            f"op {op.op!r}: of its kind {op.kind!r} nothing is known, not even the dims of its "
            "inputs: it runs replicated (MindSpore: StandAlone)"
        )
    if op.partial:
        raise ConversionError(
            f"op {op.op!r}: partial sums over {', '.join(op.partial)} pass through it: MindSpore "
            "reduces them before"
        )
    if op.followers:
        raise ConversionError(
            f"op {op.op!r}: over {', '.join(op.followers)} it moves the data of what follows by "
            f"itself (rule {op.rule!r}): cuts of inputs cannot say it"
        )
    rule = parse_notation(op.rule)
    held = {f for term in rule.inputs for dim in term for product in dim for f in product}
    for factor, axes in op.strategy.items():
        if axes and factor not in held:
            raise ConversionError(
                f"op {op.op!r}: its factor {factor!r} is cut over {'×'.join(axes)} and no input "
                f"has it (rule {op.rule!r}): cuts of inputs cannot say it"
            )
    axes_by_dim = [
        [_dim_axes(op, rule, dim, sizes or {}, grid) for dim in term] for term in _inputs(rule)
    ]
    layouts = []
    for term in axes_by_dim:
        empty = MindSporeLayout(
            device_matrix=grid.sizes,
            tensor_map=tuple(_map(axes, grid) for axes in term),
            tensor_shape=tuple(grid.size(axes) for axes in term),
        )
        layouts.append(empty.aliases(grid))
    used = [
        axis
        for factor in _in_order(rule)
        for axis in op.strategy.get(factor, ())
        if grid.size((axis,)) > 1
    ]
    counted = [name for name, size in zip(grid.names, grid.sizes, strict=True) if size > 1]
    return OpStrategy(
        cuts=tuple(tuple(grid.size(axes) for axes in term) for term in axes_by_dim),
        layouts=tuple(layouts),
        keeps_ranks=used == counted[: len(used)]
        and list(grid.ranks) == list(range(grid.ranks[0], grid.ranks[0] + len(grid.ranks))),
    )


def device_matrix(cuts: Cuts, rule: str, device_count: int) -> tuple[int, ...]:
    """MindSpore's device matrix of an op: an entry a factor, and one for repeated computation.

    Raises ConversionError where the cuts do not fit the rule or the devices.
    """
    ways = _ways(cuts, parse_notation(rule), {}, rule)
    used = math.prod(ways.values())
    if device_count % used:
        raise ConversionError(
            f"the cuts {cuts} of {rule!r} need {used} devices, and {device_count} do not divide by "
            "that"
        )
    repeated = device_count // used
    return (*ways.values(), repeated) if repeated > 1 else tuple(ways.values())


def strategy_of_cuts(
    cuts: Cuts, rule: str, grid: DeviceGrid, *, sizes: Sizes | None = None
) -> Strategy:
    """Which axes lie on which factor of a rule cut like this: those that MindSpore would use.

    Raises ConversionError where cuts contradict each other or the rule, or no axes make them up.
    """
    ways = _ways(cuts, parse_notation(rule), sizes or {}, rule)
    axes = [(name, size) for name, size in zip(grid.names, grid.sizes, strict=True) if size > 1]
    found: Strategy = {}
    for factor, wanted in ways.items():
        taken: list[Axis] = []
        left = wanted
        while left > 1:
            if not axes or left % axes[0][1]:
                raise ConversionError(
                    f"the cuts {cuts} of {rule!r} put {wanted} parts on {factor!r}, which no axes "
                    f"of a mesh of {list(grid.sizes)} make up in their order; "
                    f"{'×'.join(taken) or 'no axis'} came before"
                )
            name, size = axes.pop(0)
            taken.append(name)
            left //= size
        if taken:
            found[factor] = tuple(taken)
    return found


def strategy_of_layouts(
    layouts: Sequence[Sequence[Alias]], rule: str, grid: DeviceGrid, *, sizes: Sizes | None = None
) -> Strategy:
    """Which axes lie on which factor of a rule whose inputs have these Layouts, by alias.

    Raises ConversionError where they contradict each other or the rule.
    """
    parsed = parse_notation(rule)
    terms = _inputs(parsed)
    _check_count([len(own) for own in layouts], terms, rule)
    found: Strategy = {}
    for term, aliases in zip(terms, layouts, strict=True):
        given = MindSporeLayout.from_aliases(aliases, (1,) * len(aliases), grid)
        for dim, positions in zip(term, given.positions, strict=True):
            axes = tuple(grid.names[len(grid.names) - 1 - p] for p in positions)
            for factor, own in _spread(dim, axes, parsed, sizes or {}, grid, rule).items():
                if found.setdefault(factor, own) != own:
                    raise ConversionError(
                        f"rule {rule!r}: its factor {factor!r} is cut over {'×'.join(own)} in one "
                        f"input and over {'×'.join(found[factor])} in another"
                    )
    return {factor: axes for factor, axes in found.items() if axes}


def _inputs(rule: Notation) -> tuple[tuple[Segments, ...], ...]:
    """The terms of the inputs; none where nothing stands before the arrow."""
    return () if rule.inputs == ((),) else rule.inputs


def _in_order(rule: Notation) -> list[Factor]:
    """The factors of the inputs that can have axes, in the order of their appearance."""
    found = [f for term in rule.inputs for dim in term for product in dim for f in product]
    return [f for f in dict.fromkeys(found) if f not in rule.follows]


def _map(axes: Sequence[Axis], grid: DeviceGrid) -> tuple[int, ...]:
    return tuple(len(grid.names) - 1 - grid.names.index(axis) for axis in axes)


def _dim_axes(
    op: OpPlan, rule: Notation, dim: Segments, sizes: Sizes, grid: DeviceGrid
) -> tuple[Axis, ...]:
    """The axes of one dim of an input, where they cut it as a whole into equal parts."""
    own = [(f, op.strategy.get(rule.follows.get(f, f), ())) for product in dim for f in product]
    if len(dim) > 1 and any(axes for _, axes in own):
        raise ConversionError(
            f"op {op.op!r}: its factor {own[0][0]!r} is cut in every segment of a dim alike (rule "
            f"{op.rule!r}): a cut of MindSpore's splits the dim as a whole; split the tensor there"
        )
    found: list[Axis] = []
    full = True  # whether all that is outside of a factor is used up
    for factor, axes in own:
        ways, size = grid.size(axes), sizes.get(factor)
        if ways > 1 and not full:
            raise ConversionError(
                f"op {op.op!r}: its factor {factor!r} is cut over {'×'.join(axes)} before what is "
                f"outside of it in its dim is used up (rule {op.rule!r}): a cut of MindSpore's "
                "splits the dim from the outside"
            )
        if size is not None and size % ways:
            raise ConversionError(
                f"op {op.op!r}: its factor {factor!r} of {size} does not divide by {ways} parts: "
                "MindSpore knows equal parts only"
            )
        full = full and size == ways
        found += axes
    return tuple(found)


def _check_count(counts: Sequence[int], terms: Sequence[Sequence[Segments]], rule: str) -> None:
    if list(counts) != [len(term) for term in terms]:
        raise ConversionError(
            f"rule {rule!r} has inputs of {[len(term) for term in terms]} dims, got a strategy for "
            f"inputs of {list(counts)}"
        )


def _ways(cuts: Cuts, rule: Notation, sizes: Sizes, text: str) -> dict[Factor, int]:
    """Into how many parts each factor is cut."""
    terms = _inputs(rule)
    _check_count([len(own) for own in cuts], terms, text)
    ways = dict.fromkeys(_in_order(rule), 0)
    followers: list[tuple[Factor, int]] = []
    for term, own in zip(terms, cuts, strict=True):
        for dim, cut in zip(term, own, strict=True):
            for factor, count in _split(dim, cut, rule, sizes, text):
                if factor in rule.follows:
                    followers.append((factor, count))
                elif ways[factor] not in (0, count):
                    raise ConversionError(
                        f"rule {text!r}: the cuts {cuts} split its factor {factor!r} into "
                        f"{ways[factor]} and into {count} parts"
                    )
                else:
                    ways[factor] = count
    for factor, count in followers:
        if ways.get(rule.follows[factor], 1) != count:
            raise ConversionError(
                f"rule {text!r}: its factor {factor!r} is split like {rule.follows[factor]!r}, the "
                f"cuts {cuts} split it into {count}"
            )
    return ways


def _split(
    dim: Segments, cut: int, rule: Notation, sizes: Sizes, text: str
) -> list[tuple[Factor, int]]:
    """A cut of a dim as cuts of its factors, the outer ones first."""
    factors = [f for product in dim for f in product]
    if cut < 1 or (cut > 1 and (not factors or len(dim) > 1)):
        raise ConversionError(
            f"rule {text!r}: a dim of {len(dim)} segments with the factors {factors} cannot be "
            f"split into {cut} parts"
        )
    if len(dim) > 1:
        return [(f, 1) for f in dict.fromkeys(factors)]
    found = []
    for factor in factors:
        own = math.gcd(cut, sizes.get(factor, cut))
        cut //= own
        if own > 1 and factor in rule.unsharded:
            raise ConversionError(
                f"rule {text!r}: its factor {factor!r} must not be split, got {own} parts"
            )
        found.append((factor, own))
        if cut > 1 and own != sizes.get(factor):
            break
    if cut > 1:
        raise ConversionError(
            f"rule {text!r}: the sizes of {factors} in one dim leave {cut} parts over"
        )
    return found


def _spread(
    dim: Segments, axes: tuple[Axis, ...], rule: Notation, sizes: Sizes, grid: DeviceGrid, text: str
) -> dict[Factor, tuple[Axis, ...]]:
    """The axes of a dim put on its factors, the outer ones first."""
    found: dict[Factor, tuple[Axis, ...]] = {}
    left = list(axes)
    for factor, count in _split(dim, grid.size(axes), rule, sizes, text):
        own: list[Axis] = []
        while left and grid.size(own) < count:
            own.append(left.pop(0))
        if grid.size(own) != count:
            raise ConversionError(
                f"rule {text!r}: no axes of {'×'.join(axes)} split its factor {factor!r} of "
                f"{sizes.get(factor)}"
            )
        found[rule.follows.get(factor, factor)] = tuple(own)
    return found
