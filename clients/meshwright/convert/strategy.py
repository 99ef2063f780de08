"""MindSpore strategies of an op: cuts such as `((2, 1), (1, 4))`, or one Layout per input.

Cuts are the numbers of parts of each dim of each input. MindSpore derives the devices of the parts:
its device matrix has one entry per factor, in the order of appearance in the inputs, and one on the
right for repeated computation. Cuts are exact where the mesh's axes have this order
(`keeps_ranks`); Layouts are always exact.

A rule is the notation of `OpPlan.rule`. `sizes` holds the known sizes of its factors; a product dim
that is cut in several factors, or inside, requires them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.mindspore import Alias, MindSporeLayout
from meshwright.schema import Axis, ConversionError, Factor, Model, Notation, OpPlan, parse_notation

Cuts = tuple[tuple[int, ...], ...]
Strategy = dict[str, tuple[Axis, ...]]
Sizes = Mapping[str, int]
Segments = tuple[tuple[Factor, ...], ...]


class OpStrategy(Model):
    """An op's strategy for MindSpore: cuts, and the aliases of every input's Layout.

    keeps_ranks: whether the cuts alone give every rank the same parts as the plan.
    """

    cuts: Cuts
    layouts: tuple[tuple[Alias, ...], ...]
    keeps_ranks: bool


def to_strategy(op: OpPlan, grid: DeviceGrid, *, sizes: Sizes | None = None) -> OpStrategy:
    """The MindSpore strategy of an op.

    Raises ConversionError with the op's name where MindSpore cannot express the strategy.
    """
    if op.rule is None:
        raise ConversionError(
            f"op {op.op!r}: its kind {op.kind!r} has no rule, and the dims of its inputs are "
            "unknown: it runs replicated (MindSpore: StandAlone)"
        )
    if op.partial:
        raise ConversionError(
            f"op {op.op!r}: partial sums over {', '.join(op.partial)} pass through it, and "
            "MindSpore reduces them before the op"
        )
    if op.followers:
        raise ConversionError(
            f"op {op.op!r}: over {', '.join(op.followers)} it redistributes the data of the "
            f"factors that follow it (rule {op.rule!r}), which cuts of inputs cannot express"
        )
    rule = parse_notation(op.rule)
    input_factors = {f for term in rule.inputs for dim in term for product in dim for f in product}
    for factor, axes in op.strategy.items():
        if axes and factor not in input_factors:
            raise ConversionError(
                f"op {op.op!r}: its factor {factor!r} is cut over {'×'.join(axes)} and no input "
                f"has it (rule {op.rule!r}), so that cuts of inputs cannot express it"
            )
    axes_by_dim = [
        [_dim_axes(op, rule, dim, sizes or {}, grid) for dim in term] for term in _inputs(rule)
    ]
    layouts = []
    for term in axes_by_dim:
        empty = MindSporeLayout(
            device_matrix=grid.sizes,
            tensor_map=tuple(_tensor_map_entry(axes, grid) for axes in term),
            tensor_shape=tuple(grid.size(axes) for axes in term),
        )
        layouts.append(empty.aliases(grid))
    cut_axes = [
        axis
        for factor in _ordered_factors(rule)
        for axis in op.strategy.get(factor, ())
        if grid.size((axis,)) > 1
    ]
    mesh_axes = [name for name, size in zip(grid.names, grid.sizes, strict=True) if size > 1]
    return OpStrategy(
        cuts=tuple(tuple(grid.size(axes) for axes in term) for term in axes_by_dim),
        layouts=tuple(layouts),
        keeps_ranks=cut_axes == mesh_axes[: len(cut_axes)]
        and list(grid.ranks) == list(range(grid.ranks[0], grid.ranks[0] + len(grid.ranks))),
    )


def device_matrix(cuts: Cuts, rule: str, device_count: int) -> tuple[int, ...]:
    """MindSpore's device matrix of an op: one entry per factor, and one for repeated computation.

    Raises ConversionError where the cuts do not fit the rule or the devices.
    """
    ways = _factor_cuts(cuts, parse_notation(rule), {}, rule)
    used = math.prod(ways.values())
    if device_count % used:
        raise ConversionError(
            f"the cuts {cuts} of {rule!r} need {used} devices, and {device_count} is not a "
            "multiple of it"
        )
    repeated = device_count // used
    return (*ways.values(), repeated) if repeated > 1 else tuple(ways.values())


def strategy_of_cuts(
    cuts: Cuts, rule: str, grid: DeviceGrid, *, sizes: Sizes | None = None
) -> Strategy:
    """The axes that MindSpore assigns to the factors of a rule with these cuts.

    Raises ConversionError where cuts contradict each other or the rule, or match no axes.
    """
    ways = _factor_cuts(cuts, parse_notation(rule), sizes or {}, rule)
    axes = [(name, size) for name, size in zip(grid.names, grid.sizes, strict=True) if size > 1]
    strategy: Strategy = {}
    for factor, parts in ways.items():
        taken: list[Axis] = []
        left = parts
        while left > 1:
            if not axes or left % axes[0][1]:
                raise ConversionError(
                    f"the cuts {cuts} of {rule!r} put {parts} parts on {factor!r}, which no axes "
                    f"of a mesh of {list(grid.sizes)} match in their order; "
                    f"{'×'.join(taken) or 'no axis'} came before"
                )
            name, size = axes.pop(0)
            taken.append(name)
            left //= size
        if taken:
            strategy[factor] = tuple(taken)
    return strategy


def strategy_of_layouts(
    layouts: Sequence[Sequence[Alias]], rule: str, grid: DeviceGrid, *, sizes: Sizes | None = None
) -> Strategy:
    """The axes of the factors of a rule whose inputs have Layouts with these aliases.

    Raises ConversionError where the Layouts contradict each other or the rule.
    """
    parsed = parse_notation(rule)
    terms = _inputs(parsed)
    _check_count([len(aliases) for aliases in layouts], terms, rule)
    strategy: Strategy = {}
    for term, aliases in zip(terms, layouts, strict=True):
        layout = MindSporeLayout.from_aliases(aliases, (1,) * len(aliases), grid)
        for dim, positions in zip(term, layout.positions, strict=True):
            axes = tuple(grid.names[len(grid.names) - 1 - p] for p in positions)
            for factor, factor_axes in _distribute_axes(
                dim, axes, parsed, sizes or {}, grid, rule
            ).items():
                if strategy.setdefault(factor, factor_axes) != factor_axes:
                    raise ConversionError(
                        f"rule {rule!r}: its factor {factor!r} is cut over {'×'.join(factor_axes)} "
                        f"in one input and over {'×'.join(strategy[factor])} in another"
                    )
    return {factor: axes for factor, axes in strategy.items() if axes}


def _inputs(rule: Notation) -> tuple[tuple[Segments, ...], ...]:
    """The terms of the inputs; empty for a rule without inputs."""
    return () if rule.inputs == ((),) else rule.inputs


def _ordered_factors(rule: Notation) -> list[Factor]:
    """The factors of the inputs that can have axes, in order of appearance."""
    factors = [f for term in rule.inputs for dim in term for product in dim for f in product]
    return [f for f in dict.fromkeys(factors) if f not in rule.follows]


def _tensor_map_entry(axes: Sequence[Axis], grid: DeviceGrid) -> tuple[int, ...]:
    return tuple(len(grid.names) - 1 - grid.names.index(axis) for axis in axes)


def _dim_axes(
    op: OpPlan, rule: Notation, dim: Segments, sizes: Sizes, grid: DeviceGrid
) -> tuple[Axis, ...]:
    """The axes of one dim of an input, where they cut the whole dim into equal parts."""
    factor_axes = [
        (f, op.strategy.get(rule.follows.get(f, f), ())) for product in dim for f in product
    ]
    if len(dim) > 1 and any(axes for _, axes in factor_axes):
        raise ConversionError(
            f"op {op.op!r}: its factor {factor_axes[0][0]!r} is cut in every segment of a dim "
            f"(rule {op.rule!r}), and a cut of MindSpore splits the whole dim. Split the tensor at "
            "the segments"
        )
    dim_axes: list[Axis] = []
    full = True  # whether the outer factors are fully cut
    for factor, axes in factor_axes:
        ways, size = grid.size(axes), sizes.get(factor)
        if ways > 1 and not full:
            raise ConversionError(
                f"op {op.op!r}: its factor {factor!r} is cut over {'×'.join(axes)} before the "
                f"outer factors of its dim are fully cut (rule {op.rule!r}), and a cut of "
                "MindSpore splits a dim from the outside"
            )
        if size is not None and size % ways:
            raise ConversionError(
                f"op {op.op!r}: its factor {factor!r} of {size} does not divide by {ways} parts: "
                "MindSpore supports equal parts only"
            )
        full = full and size == ways
        dim_axes += axes
    return tuple(dim_axes)


def _check_count(counts: Sequence[int], terms: Sequence[Sequence[Segments]], rule: str) -> None:
    if list(counts) != [len(term) for term in terms]:
        raise ConversionError(
            f"rule {rule!r} has inputs of {[len(term) for term in terms]} dims, got a strategy for "
            f"inputs of {list(counts)}"
        )


def _factor_cuts(cuts: Cuts, rule: Notation, sizes: Sizes, text: str) -> dict[Factor, int]:
    """The number of parts of each factor."""
    terms = _inputs(rule)
    _check_count([len(dim_cuts) for dim_cuts in cuts], terms, text)
    ways = dict.fromkeys(_ordered_factors(rule), 0)
    followers: list[tuple[Factor, int]] = []
    for term, dim_cuts in zip(terms, cuts, strict=True):
        for dim, cut in zip(term, dim_cuts, strict=True):
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
    """The cuts of the factors of a dim with this cut, the outer factors first."""
    factors = [f for product in dim for f in product]
    if cut < 1 or (cut > 1 and (not factors or len(dim) > 1)):
        raise ConversionError(
            f"rule {text!r}: a dim of {len(dim)} segments with the factors {factors} cannot be "
            f"split into {cut} parts"
        )
    if len(dim) > 1:
        return [(f, 1) for f in dict.fromkeys(factors)]
    factor_cuts = []
    for factor in factors:
        parts = math.gcd(cut, sizes.get(factor, cut))
        cut //= parts
        if parts > 1 and factor in rule.unsharded:
            raise ConversionError(
                f"rule {text!r}: its factor {factor!r} must not be split, got {parts} parts"
            )
        factor_cuts.append((factor, parts))
        if cut > 1 and parts != sizes.get(factor):
            break
    if cut > 1:
        raise ConversionError(
            f"rule {text!r}: {cut} parts of a dim remain after its factors {factors} are fully cut"
        )
    return factor_cuts


def _distribute_axes(
    dim: Segments, axes: tuple[Axis, ...], rule: Notation, sizes: Sizes, grid: DeviceGrid, text: str
) -> dict[Factor, tuple[Axis, ...]]:
    """The axes of a dim, distributed over its factors, the outer factors first."""
    strategy: dict[Factor, tuple[Axis, ...]] = {}
    left = list(axes)
    for factor, count in _split(dim, grid.size(axes), rule, sizes, text):
        factor_axes: list[Axis] = []
        while left and grid.size(factor_axes) < count:
            factor_axes.append(left.pop(0))
        if grid.size(factor_axes) != count:
            raise ConversionError(
                f"rule {text!r}: no axes of {'×'.join(axes)} split its factor {factor!r} of "
                f"{sizes.get(factor)}"
            )
        strategy[rule.follows.get(factor, factor)] = tuple(factor_axes)
    return strategy
