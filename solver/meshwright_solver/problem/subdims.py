"""Sub-dims: the common refinement of every tensor dim over all ops that produce or read it.

A dim of length N with *cuts* c1 > c2 > ... (each divides the one before, and N) is the product of
sub-dims N/c1, c1/c2, ..., major first. Rules set cuts: `b s (h d)` cuts at d. A cut propagates from
a dim to the factor that fills it, and from the factor to every other dim that it fills; inside a
product it is scaled by the product's offset. The fixed point has every cut at which a dim or factor
can be sharded by itself. Of cuts that do not divide each other, the first one found stays. An op
cannot shard a factor with cuts that its dim lacks (`blocked`).

A sum of segments counts as the product of the factor that all segments share and the rest. Axes on
the shared factor lie on every segment alike; no other factor of the dim can be sharded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshwright.schema import Factor
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.rules import Bound

DimKey = tuple[str, int]
Cuts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A factor's place in a dim: one step of the factor is `inner` steps of the dim.

    term: index of the rule's term, inputs first.
    """

    term: int
    dim: int
    factor: Factor
    inner: int


@dataclass(frozen=True, slots=True)
class RuleUses:
    """The uses of factors by a rule with sizes. loose: factors with a halo, and followers.

    hidden: factors of segmented dims without a use. joined: uses that fill their dim; cutting: the
    others; both are without loose factors. segments: (term, dim, lengths).
    """

    uses: tuple[Use, ...]
    loose: frozenset[Factor]
    hidden: frozenset[Factor]
    joined: tuple[Use, ...]
    cutting: tuple[Use, ...]
    segments: tuple[tuple[int, int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Refinement:
    """Cuts of dims and of the factors of every op, descending and without 1; no entry for none.

    uses, blocked: by op position, the uses of its rule and the factors that it cannot shard.
    """

    dim_cuts: Mapping[DimKey, Cuts]
    factor_cuts: Sequence[Mapping[Factor, Cuts]]
    segments: Mapping[DimKey, tuple[int, ...]]
    uses: Sequence[RuleUses]
    blocked: Sequence[frozenset[Factor]]


def refine(
    bound: Sequence[Bound | None],
    tensors: Sequence[Sequence[str]],
    shapes: Mapping[str, tuple[int, ...]],
) -> Refinement:
    """The fixed point over all ops. bound, tensors: by op, its rule, and its tensors by term."""
    uses: list[RuleUses] = []
    key_of = IdentityKeys()
    rules: dict[IdentityKey, RuleUses] = {}
    for op_bound, names in zip(bound, tensors, strict=True):
        if op_bound is None:
            uses.append(_NO_USES)
            continue
        # ops of equal rule and shapes share one Bound
        key = key_of(op_bound)
        if key not in rules:
            rules[key] = _rule_uses(op_bound, [shapes[name] for name in names])
        uses.append(rules[key])
    if not any(rule_uses.cutting or rule_uses.segments for rule_uses in rules.values()):
        return Refinement(
            {}, [_NO_CUTS] * len(uses), {}, uses, [rule_uses.hidden for rule_uses in uses]
        )
    return _Refiner(bound, tensors, shapes, uses).refinement()


class _Refiner:
    """Numbered dims and factors in a union-find: those of the same index are one class."""

    def __init__(
        self,
        bound: Sequence[Bound | None],
        tensors: Sequence[Sequence[str]],
        shapes: Mapping[str, tuple[int, ...]],
        uses: Sequence[RuleUses],
    ) -> None:
        self.tensors = tensors
        self.shapes = shapes
        self.uses = uses
        self.sizes = [op_bound.sizes if op_bound is not None else {} for op_bound in bound]
        self.first_dim: dict[str, int] = {}
        count = 0
        for name, shape in shapes.items():
            self.first_dim[name] = count
            count += len(shape)
        self.factors: list[dict[Factor, int]] = []
        for sizes in self.sizes:
            self.factors.append(dict(zip(sizes, range(count, count + len(sizes)), strict=True)))
            count += len(sizes)
        self.parent = list(range(count))
        self._join()

    def refinement(self) -> Refinement:
        cuts = self._fixed_point()
        dim_cuts = {
            (name, d): class_cuts
            for name, first in self.first_dim.items()
            for d in range(len(self.shapes[name]) if cuts else 0)
            if (class_cuts := cuts.get(self._find(first + d), ()))
        }
        factor_cuts = [self._factor_cuts(position, cuts) for position in range(len(self.uses))]
        blocked = [
            uses.hidden
            | {
                use.factor
                for use in uses.cutting
                if not self._fits(position, use, dim_cuts, factor_cuts[position])
            }
            if uses.cutting
            else uses.hidden
            for position, uses in enumerate(self.uses)
        ]
        by_class = self._segments_by_class()
        if by_class:
            blocked = [
                factors | self._conflicting(position, by_class)
                for position, factors in enumerate(blocked)
            ]
        return Refinement(dim_cuts, factor_cuts, self._segments(by_class), self.uses, blocked)

    def _find(self, key: int) -> int:
        parent = self.parent
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    def _join(self) -> None:
        parent, find, first_dim = self.parent, self._find, self.first_dim
        for uses, names, factors in zip(self.uses, self.tensors, self.factors, strict=True):
            for use in uses.joined:
                parent[find(first_dim[names[use.term]] + use.dim)] = find(factors[use.factor])

    def _factor_cuts(self, position: int, cuts: Mapping[int, Cuts]) -> Mapping[Factor, Cuts]:
        if not cuts:
            return _NO_CUTS
        uses = self.uses[position]
        return {
            factor: class_cuts
            for factor, key in self.factors[position].items()
            if factor not in uses.loose and (class_cuts := cuts.get(self._find(key), ()))
        }

    def _fixed_point(self) -> dict[int, Cuts]:
        links: dict[int, list[tuple[int, int, int, int]]] = {}
        cuts: dict[int, set[int]] = {}
        sizes_of: dict[int, int] = {}
        changed: list[int] = []

        def add(key: int, cut: int) -> None:
            class_cuts = cuts.setdefault(key, set())
            if cut in class_cuts or not 1 < cut < sizes_of[key] or sizes_of[key] % cut:
                return
            if all(cut % other == 0 or other % cut == 0 for other in class_cuts):
                class_cuts.add(cut)
                changed.append(key)

        for position, uses in enumerate(self.uses):
            for use in uses.cutting:
                name = self.tensors[position][use.term]
                dim = self._find(self.first_dim[name] + use.dim)
                factor = self._find(self.factors[position][use.factor])
                extent = self.sizes[position][use.factor]
                sizes_of[dim], sizes_of[factor] = self.shapes[name][use.dim], extent
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
        return {
            key: tuple(sorted(class_cuts, reverse=True))
            for key, class_cuts in cuts.items()
            if class_cuts
        }

    def _segments_by_class(self) -> dict[int, tuple[int, ...]]:
        return {
            self._find(self.first_dim[names[term]] + d): lengths
            for uses, names in zip(self.uses, self.tensors, strict=True)
            for term, d, lengths in uses.segments
        }

    def _segments(self, by_class: Mapping[int, tuple[int, ...]]) -> dict[DimKey, tuple[int, ...]]:
        """Segments of all dims that have the same index as a segmented dim."""
        if not by_class:
            return {}
        return {
            (name, d): lengths
            for name, first in self.first_dim.items()
            for d in range(len(self.shapes[name]))
            if (lengths := by_class.get(self._find(first + d))) is not None
        }

    def _conflicting(
        self, position: int, by_class: Mapping[int, tuple[int, ...]]
    ) -> frozenset[Factor]:
        """Shared factors of sums that an op cannot shard.

        A sum conflicts if another op divides the dim into other segments, or if one of its
        segments is a sum itself: a shard of the segment is contiguous for this op, and a shard of
        each of its own segments for the other.
        """
        uses, names = self.uses[position], self.tensors[position]
        own = {(term, d): lengths for term, d, lengths in uses.segments}
        conflicting: set[Factor] = set()
        for use in uses.uses if own else ():
            lengths = by_class.get(self._find(self.first_dim[names[use.term]] + use.dim))
            if lengths is not None and own.get((use.term, use.dim)) != lengths:
                conflicting.add(use.factor)
        return frozenset(conflicting)

    def _fits(
        self,
        position: int,
        use: Use,
        dim_cuts: Mapping[DimKey, Cuts],
        factor_cuts: Mapping[Factor, Cuts],
    ) -> bool:
        """Whether the dim has cuts at both ends of the factor's range, and the factor's inside."""
        name = self.tensors[position][use.term]
        size, cuts = self.shapes[name][use.dim], dim_cuts.get((name, use.dim), ())
        extent = self.sizes[position][use.factor]
        if extent > 1 and not {use.inner, use.inner * extent} <= {size, *cuts, 1}:
            return False
        inside = [cut // use.inner for cut in cuts if use.inner < cut < use.inner * extent]
        return tuple(inside) == factor_cuts.get(use.factor, ())


_NO_USES = RuleUses((), frozenset(), frozenset(), (), (), ())
_NO_CUTS: Mapping[Factor, Cuts] = {}


def _rule_uses(bound: Bound, shapes: Sequence[tuple[int, ...]]) -> RuleUses:
    parsed, sizes = bound.known.rule.parsed, bound.sizes
    uses: list[Use] = []
    hidden: set[Factor] = set()
    segments: list[tuple[int, int, tuple[int, ...]]] = []
    for t, term in enumerate(parsed.terms_of(len(shapes))[: len(shapes)]):
        for d, parts in enumerate(term):
            if len(parts) == 1:
                dim_uses = list(_uses_of(t, d, parts[0], sizes))
            else:
                lengths = tuple(math.prod(sizes[f] for f in part) for part in parts)
                segments.append((t, d, lengths))
                common = [f for f in parts[0] if all(part and part[0] == f for part in parts)]
                dim_uses = [Use(t, d, f, sum(lengths) // sizes[f]) for f in common[:1]]
            uses += dim_uses
            hidden |= {f for part in parts for f in part} - {use.factor for use in dim_uses}
    loose = frozenset(use.factor for use in uses if use.factor in parsed.halo | set(parsed.follows))
    tight = [use for use in uses if use.factor not in loose]
    fills = [shapes[use.term][use.dim] == sizes[use.factor] for use in tight]
    return RuleUses(
        tuple(uses),
        loose,
        frozenset(hidden),
        tuple(use for use, whole in zip(tight, fills, strict=True) if whole),
        tuple(use for use, whole in zip(tight, fills, strict=True) if not whole),
        tuple(segments),
    )


def _uses_of(
    term: int, dim: int, factors: Sequence[Factor], sizes: Mapping[Factor, int]
) -> list[Use]:
    """Uses of the factors of a product in one dim, major first."""
    inner = math.prod(sizes[f] for f in factors)
    uses = []
    for factor in factors:
        inner //= sizes[factor]
        uses.append(Use(term, dim, factor, inner))
    return uses
