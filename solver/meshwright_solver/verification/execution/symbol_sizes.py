"""Sizes that follow the graph's symbols, where these are small.

A length such as `seq//4` cannot be chosen: the least `seq` is found with which it, and all others,
divide by what cuts them and are at least 2. An expert's room for a quarter of the tokens would
otherwise be 1, and no slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from meshwright.schema import GraphError
from meshwright.schema.sizes import Size, size_value, symbols_in
from meshwright_solver.problem.uneven import Key

DOUBLINGS = 64  # chosen: of the symbols, until every class divides
MOST_SYMBOL = 32  # chosen: covers every uneven size of four axes


@dataclass(frozen=True, slots=True)
class SizeRequirement:
    """What is wanted of a class: a multiple of `divisor`, `least` or more.

    ends_empty: None for a class cut evenly. Of one that is not, whether its last chunk is empty.
    """

    divisor: int
    least: int
    ends_empty: bool | None = None

    def divides(self, size: int | None) -> bool:
        """Whether this size, cut evenly, would do."""
        return size is not None and size % self.divisor == 0 and size >= self.least

    def suits(self, size: int | None) -> bool:
        """Whether this size would do, cut as the plan cuts it."""
        if size is None or self.ends_empty is None:
            return self.divides(size)
        missing = -size % self.divisor
        is_uneven = size >= self.least and missing > 0
        return is_uneven and (missing >= -(-size // self.divisor)) == self.ends_empty


@dataclass(slots=True)
class SymbolSizes:
    """Lengths with symbols by class, and what is wanted of them."""

    lengths: dict[Key, Size] = field(default_factory=dict)
    wanted: dict[Key, SizeRequirement] = field(default_factory=dict)

    def add(self, key: Key, length: Size, wanted: SizeRequirement) -> None:
        """One more class; the first length said of it counts."""
        self.lengths.setdefault(key, length)
        self.wanted.setdefault(key, wanted)

    def sizes(self, symbols: Iterable[str]) -> dict[Key, int] | None:
        """The size of every class at small values of the symbols, None where there are none."""
        least = dict.fromkeys(symbols, 2)
        for _ in range(DOUBLINGS):
            sizes = self._at(least)
            short = [key for key, own in self.wanted.items() if not own.divides(sizes.get(key))]
            if not short:
                is_even = all(own.ends_empty is None for own in self.wanted.values())
                return sizes if is_even else self._uneven(least)
            for name in least:
                if any(name in symbols_in(self.lengths[key]) for key in short):
                    least[name] *= 2
        return None

    def _uneven(self, least: Mapping[str, int]) -> dict[Key, int] | None:
        """Sizes that leave uneven classes uneven; None where there are none."""
        uneven = [key for key, own in self.wanted.items() if own.ends_empty is not None]
        names = sorted({name for key in uneven for name in symbols_in(self.lengths[key])})
        for values in sorted(product(range(2, MOST_SYMBOL + 1), repeat=len(names)), key=sum):
            sizes = self._at({**least, **dict(zip(names, values, strict=True))})
            if all(own.suits(sizes.get(key)) for key, own in self.wanted.items()):
                return sizes
        return None

    def _at(self, symbols: Mapping[str, int]) -> dict[Key, int]:
        """Sizes at these values, of the classes that have one."""
        found = {}
        for key, length in self.lengths.items():
            try:
                found[key] = size_value(length, symbols)
            except GraphError:
                continue
        return found
