"""The small mesh of an execution: two devices an axis, and more where a plan compares axes.

A permute moves the parts of one set of axes to another set whose sizes have the same product, such
as 8@gpu to 4@node0 * 2@node1. Two devices an axis would make that 2 and 4, so gpu gets four. Small
sizes are powers of two, the least that keep every possible equality. As many powers as the size has
prime factors always keep them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import prod

from meshwright.schema import Mesh, MeshAxis, Stage

AXIS = 2  # chosen: the least that has groups

Equality = tuple[frozenset[str], frozenset[str]]


def scaled_mesh(stage: Stage) -> Mesh:
    """The stage's axes, each as small as its steps allow."""
    sizes = {str(axis.name): axis.size for axis in stage.mesh.axes}
    permuted = {
        frozenset(map(str, step.axes))
        for moved in stage.redistributions
        for step in moved.steps
        if step.kind == "permute"
    }
    equal = {pair for axes in permuted for pair in _equalities(axes, sizes)}
    powers = _least_powers(sizes, equal)
    return Mesh(
        axes=tuple(
            MeshAxis(name=axis.name, size=AXIS ** powers[str(axis.name)], level=axis.level)
            for axis in stage.mesh.axes
        )
    )


def _equalities(axes: frozenset[str], sizes: dict[str, int]) -> Iterator[Equality]:
    """Pairs of disjoint sets of axes with equally many devices."""
    sets = [
        frozenset(subset) for n in range(1, len(axes)) for subset in combinations(sorted(axes), n)
    ]
    for one, other in combinations(sets, 2):
        if not one & other and prod(sizes[a] for a in one) == prod(sizes[a] for a in other):
            yield one, other


def _least_powers(sizes: dict[str, int], equal: set[Equality]) -> dict[str, int]:
    """The least exponents that keep the equalities; 0 for an axis with one device."""
    names = list(sizes)
    ranges = [range(min(1, most), most + 1) for most in map(_prime_factors, sizes.values())]
    if not equal:
        ranges = [exponents_[:1] for exponents_ in ranges]
    for powers in sorted(product(*ranges), key=sum):
        exponents = dict(zip(names, powers, strict=True))
        if all(sum(exponents[a] for a in x) == sum(exponents[a] for a in y) for x, y in equal):
            return exponents
    raise AssertionError("as many as there are prime factors keep every equality")


def _prime_factors(size: int) -> int:
    """The number of prime factors, with repeats."""
    count, factor = 0, 2
    while size > 1:
        while size % factor == 0:
            size //= factor
            count += 1
        factor += 1
    return count
