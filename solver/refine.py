"""Sub-dims: the common refinement of every tensor dim over all ops that make or read it.

A dim of length N with *cuts* c1 > c2 > ... (each divides the one before, and N) is the product of
sub-dims N/c1, c1/c2, ..., major first. Rules set cuts (`b s (h d)` cuts at d), and a cut travels:
from a dim to the factor that fills it, from the factor to every other dim it fills, in or out of a
product at the product's offset. What is left at the fixed point is how finely each dim and each
factor can be sharded by itself. Cuts that do not divide each other are kept in the order found; an
op whose factor then has cuts that its dim lacks cannot shard that factor (`blocked`).

A sum of segments counts as the product of the factor that all segments share and the rest: axes on
the shared factor lie on every segment alike, and no other factor of the dim can be sharded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshwright.schema import Factor, ShardingRule
from solver.classes import Classes

DimKey = tuple[str, int]
FactorKey = tuple[int, Factor]
Key = DimKey | FactorKey


@dataclass(frozen=True, slots=True)
class Use:
    """A factor's place inside a dim: the dim's index runs `inner` for one step of the factor."""

    dim: DimKey
    factor: FactorKey
    inner: int


@dataclass(frozen=True, slots=True)
class Refinement:
    """Cuts, descending and without 1, of dims and factors; uses by op; blocked factors."""

    dim_cuts: Mapping[DimKey, tuple[int, ...]]
    factor_cuts: Mapping[FactorKey, tuple[int, ...]]
    segments: Mapping[DimKey, tuple[int, ...]]
    uses: Sequence[Sequence[Use]]
    loose: frozenset[FactorKey]
    blocked: frozenset[FactorKey]


def refine(
    rules: Sequence[tuple[ShardingRule | None, Sequence[str], Mapping[Factor, int]]],
    shapes: Mapping[str, tuple[int, ...]],
) -> Refinement:
    """The fixed point over `rules`: (rule, its tensors in the order of the rule's terms, sizes)."""
    classes: Classes[Key] = Classes()
    uses: list[list[Use]] = []
    segments: dict[DimKey, tuple[int, ...]] = {}
    loose: set[FactorKey] = set()
    hidden: set[FactorKey] = set()
    for position, (rule, tensors, sizes) in enumerate(rules):
        found: list[Use] = []
        uses.append(found)
        if rule is None:
            continue
        parsed = rule.parsed
        for name, term in zip(tensors, parsed.terms if tensors else (), strict=False):
            for d, dim in enumerate(term):
                own = _uses_of(position, (name, d), dim, sizes, segments)
                seen = {use.factor for use in own}
                hidden |= {(position, f) for part in dim for f in part} - seen
                for use in own:
                    found.append(use)
                    factor = use.factor[1]
                    if factor in parsed.halo or factor in parsed.follows:
                        loose.add(use.factor)
        for use in found:
            name, d = use.dim
            if use.factor not in loose and shapes[name][d] == sizes[use.factor[1]]:
                classes.join(use.dim, use.factor)
    cuts = _fixed_point(classes, uses, rules, shapes, loose)
    dim_cuts = {
        (name, d): cuts.get(classes.find((name, d)), ())
        for name, shape in shapes.items()
        for d in range(len(shape))
    }
    spread = _spread_segments(classes, segments, dim_cuts)
    factor_cuts = {
        use.factor: () if use.factor in loose else cuts.get(classes.find(use.factor), ())
        for found in uses
        for use in found
    }
    blocked = frozenset(
        use.factor
        for position, found in enumerate(uses)
        for use in found
        if use.factor not in loose
        and not _fits(
            shapes[use.dim[0]][use.dim[1]], dim_cuts[use.dim], use, factor_cuts, rules[position][2]
        )
    )
    return Refinement(dim_cuts, factor_cuts, spread, uses, frozenset(loose), blocked | hidden)


def _uses_of(
    position: int,
    dim: DimKey,
    parts: tuple[tuple[Factor, ...], ...],
    sizes: Mapping[Factor, int],
    segments: dict[DimKey, tuple[int, ...]],
) -> list[Use]:
    if len(parts) == 1:
        inner = math.prod(sizes[f] for f in parts[0])
        found = []
        for factor in parts[0]:
            inner //= sizes[factor]
            found.append(Use(dim, (position, factor), inner))
        return found
    lengths = tuple(math.prod(sizes[f] for f in part) for part in parts)
    segments[dim] = lengths
    common = [f for f in parts[0] if all(part and part[0] == f for part in parts)]
    return [Use(dim, (position, f), sum(lengths) // sizes[f]) for f in common[:1]]


def _fixed_point(
    classes: Classes[Key],
    uses: Sequence[Sequence[Use]],
    rules: Sequence[tuple[ShardingRule | None, Sequence[str], Mapping[Factor, int]]],
    shapes: Mapping[str, tuple[int, ...]],
    loose: set[FactorKey],
) -> dict[Key, tuple[int, ...]]:
    links: dict[Key, list[tuple[Key, Key, int, int]]] = {}
    cuts: dict[Key, set[int]] = {}
    sizes_of: dict[Key, int] = {}
    changed: list[Key] = []

    def add(key: Key, cut: int) -> None:
        own = cuts.setdefault(key, set())
        if cut in own or not 1 < cut < sizes_of[key] or sizes_of[key] % cut:
            return
        if all(cut % other == 0 or other % cut == 0 for other in own):
            own.add(cut)
            changed.append(key)

    for position, found in enumerate(uses):
        for use in found:
            dim, size = classes.find(use.dim), shapes[use.dim[0]][use.dim[1]]
            sizes_of[dim] = size
            if use.factor in loose:
                continue
            factor, extent = classes.find(use.factor), rules[position][2][use.factor[1]]
            sizes_of[factor] = extent
            if dim == factor:
                continue
            link = (dim, factor, use.inner, extent)
            links.setdefault(dim, []).append(link)
            links.setdefault(factor, []).append(link)
            add(dim, use.inner)
            add(dim, use.inner * extent)
    while changed:
        key = changed.pop()
        for dim, factor, inner, extent in links.get(key, ()):
            if key == dim:
                for cut in sorted(cuts[dim]):
                    if inner < cut < inner * extent and cut % inner == 0:
                        add(factor, cut // inner)
            if key == factor:
                for cut in sorted(cuts[factor]):
                    add(dim, cut * inner)
    return {key: tuple(sorted(own, reverse=True)) for key, own in cuts.items()}


def _spread_segments(
    classes: Classes[Key],
    segments: Mapping[DimKey, tuple[int, ...]],
    dim_cuts: Mapping[DimKey, tuple[int, ...]],
) -> dict[DimKey, tuple[int, ...]]:
    """Every dim that is the same index as a segmented one has its segments."""
    by_class = {classes.find(dim): lengths for dim, lengths in segments.items()}
    if not by_class:
        return {}
    found = {}
    for dim in dim_cuts:
        lengths = by_class.get(classes.find(dim))
        if lengths is not None:
            found[dim] = lengths
    return found


def _fits(
    size: int,
    cuts: tuple[int, ...],
    use: Use,
    factor_cuts: Mapping[FactorKey, tuple[int, ...]],
    sizes: Mapping[Factor, int],
) -> bool:
    """Whether the dim is cut at both ends of the factor's range, and inside just as the factor."""
    extent = sizes[use.factor[1]]
    if extent > 1 and not {use.inner, use.inner * extent} <= {size, *cuts, 1}:
        return False
    inside = [cut // use.inner for cut in cuts if use.inner < cut < use.inner * extent]
    return tuple(inside) == factor_cuts[use.factor]
