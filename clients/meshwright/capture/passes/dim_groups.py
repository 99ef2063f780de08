"""Common refinement of shapes: the factors that two shapes of the same elements have in common.

[b, h, s] and [b * h, s] have the refinement [b, h, s]: every dim of either is a product of
consecutive factors. Dims of one element have none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Factors = tuple[int, ...]


def refinement(left: Sequence[int], right: Sequence[int]) -> Factors | None:
    """The factors of both shapes, major first; None where a dim of one straddles two of another."""
    rest, other = [n for n in left if n != 1], [n for n in right if n != 1]
    factors: list[int] = []
    while rest and other:
        first, second = rest.pop(0), other.pop(0)
        small = min(first, second)
        if first % small or second % small:
            # the minor factor of the longer dim may still be shared
            return None
        factors.append(small)
        if first > small:
            rest.insert(0, first // small)
        if second > small:
            other.insert(0, second // small)
    return None if rest or other else tuple(factors)


def groups(shape: Sequence[int], factors: Factors) -> list[list[int]] | None:
    """For each dim the indices of its factors; None where the factors do not refine the shape."""
    result: list[list[int]] = []
    place = 0
    for size in shape:
        group: list[int] = []
        while math.prod(factors[index] for index in group) < size and place < len(factors):
            group.append(place)
            place += 1
        if math.prod(factors[index] for index in group) != size:
            return None
        result.append(group)
    return result if place == len(factors) else None
