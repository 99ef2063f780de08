"""Sizes that follow the symbols of a graph, where these are small.

A length such as `seq//4` cannot be chosen by itself. The search takes the least `seq` with which it
and all other lengths are at least 2 and divisible by their axes. An expert's room for a quarter of
the tokens would otherwise be 1, and no slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from meshwright.schema import GraphError
from meshwright.schema.sizes import Size, size_value, symbols_in
from meshwright_solver.problem.uneven import Key

STEPS = 24  # chosen: of the symbols, until every class divides
# chosen: a quotient that is rounded up may never divide at powers of two
FACTORS = ((2,), (2, 3), (2, 2, 3, 5))
MOST_SYMBOL = 32  # chosen: covers every uneven size of four axes


@dataclass(frozen=True, slots=True)
class SizeRequirement:
    """The requirement of a class: a multiple of `divisor`, at least `least`.

    ends_empty: None for a class that is cut evenly, else whether its last chunk is empty.
    """

    divisor: int
    least: int
    ends_empty: bool | None = None

    def divides(self, size: int | None) -> bool:
        """Whether the size meets the requirement, cut evenly."""
        return size is not None and size % self.divisor == 0 and size >= self.least

    def suits(self, size: int | None) -> bool:
        """Whether the size meets the requirement, cut as the plan cuts it."""
        if size is None or self.ends_empty is None:
            return self.divides(size)
        missing = -size % self.divisor
        is_uneven = size >= self.least and missing > 0
        return is_uneven and (missing >= -(-size // self.divisor)) == self.ends_empty


@dataclass(slots=True)
class SymbolSizes:
    """Lengths with symbols by class, and their requirements."""

    lengths: dict[Key, Size] = field(default_factory=dict)
    wanted: dict[Key, SizeRequirement] = field(default_factory=dict)

    def add(self, key: Key, length: Size, wanted: SizeRequirement) -> None:
        """Add a class; its first length and requirement count."""
        self.lengths.setdefault(key, length)
        self.wanted.setdefault(key, wanted)

    def sizes(self, symbols: Iterable[str]) -> dict[Key, int] | None:
        """The size of every class at small values of the symbols; None where no values suit."""
        names = tuple(symbols)
        for factors in FACTORS:
            values = self._values(names, factors)
            if values is not None:
                is_even = all(
                    requirement.ends_empty is None for requirement in self.wanted.values()
                )
                return self._at(values) if is_even else self._uneven_sizes(values)
        return None

    def _values(self, names: Iterable[str], factors: Sequence[int]) -> dict[str, int] | None:
        """Values of the symbols at which every class divides, from 2 on by these factors."""
        least = dict.fromkeys(names, 2)
        for step in range(STEPS):
            sizes = self._at(least)
            short = [
                key
                for key, requirement in self.wanted.items()
                if not requirement.divides(sizes.get(key))
            ]
            if not short:
                return least
            for name in least:
                if any(name in symbols_in(self.lengths[key]) for key in short):
                    least[name] *= factors[step % len(factors)]
        return None

    def _uneven_sizes(self, least: Mapping[str, int]) -> dict[Key, int] | None:
        """Sizes that leave uneven classes uneven; None where no values suit."""
        uneven = [
            key for key, requirement in self.wanted.items() if requirement.ends_empty is not None
        ]
        names = sorted({name for key in uneven for name in symbols_in(self.lengths[key])})
        for values in sorted(product(range(2, MOST_SYMBOL + 1), repeat=len(names)), key=sum):
            sizes = self._at({**least, **dict(zip(names, values, strict=True))})
            if all(requirement.suits(sizes.get(key)) for key, requirement in self.wanted.items()):
                return sizes
        return None

    def _at(self, symbols: Mapping[str, int]) -> dict[Key, int]:
        """The sizes of the classes at these values of the symbols, where they have one."""
        sizes = {}
        for key, length in self.lengths.items():
            try:
                sizes[key] = size_value(length, symbols)
            except GraphError:
                continue
        return sizes
