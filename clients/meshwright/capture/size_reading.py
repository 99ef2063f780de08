"""Reading of the numbers of a forward pass: which of them follow from symbols, and how.

A trace holds numbers at the primes of the symbols. The calls of a pass at the values of the symbols
in the graph tell whether each number was read right, and passes at further sizes how another number
follows from a symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from meshwright.capture.forward_calls import ForwardCall, ForwardPasses, NotRunnable, NumberPlace
from meshwright.capture.size_quotients import quotient_of
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema.sizes import evaluate

_LEAST_QUOTIENT = 100  # chosen: smaller numbers are often those of a model
_LARGEST_DIVISOR = 4096  # chosen: a chunk of positions
_TOLERANCE = 1e-12  # of a double that was rounded a few times
Sizes = Mapping[str, int]
Place = tuple[int, NumberPlace]  # the call, and the number in it


@dataclass(frozen=True)
class Unread:
    """A call whose numbers hold at the traced size of a symbol alone.

    is_ambiguous: other primes may tell its numbers from others. constant: a number of the program
    that was read as a size, and that primes have to avoid.
    """

    symbol: str
    line: str
    is_ambiguous: bool = False
    constant: int | None = None


@dataclass(frozen=True)
class Fraction:
    """A floating number that follows from a symbol: in the trace and in the graph."""

    traced: float
    stated: float
    line: str


@dataclass
class SizeReading:
    """The numbers of a module's forward pass at the primes of a witness.

    values: of the symbols in the graph. constants: numbers of the model. derived: expressions of
    traced numbers that the witness does not read by itself.
    """

    passes: ForwardPasses
    witness: Witness
    values: Sizes
    constants: frozenset[int]
    derived: dict[int, str] = field(default_factory=dict)
    fractions: list[Fraction] = field(default_factory=list)

    def unread(self) -> Unread | None:
        """The first call that cannot be read; None if all can. Raises NotRunnable."""
        traced, stated = self._calls(self.witness.primes), self._calls(self.values)
        numbers = _Occurrences()
        for place, (one, other) in enumerate(zip_longest(traced, stated)):
            if one is None or other is None or not one.is_at(other):
                return self._unread(place, None, _either(one, other).shown_line)
            for first, second, index in one.pairs(other):
                numbers.add(first, second, place, index)
        for number, of_values in numbers.integers.items():
            if (unread := self._unread_integer(number, of_values, traced)) is not None:
                return unread
        for pair, (place, index) in numbers.fractions.items():
            if self._is_read(*pair):
                continue
            unread = self._unread(place, index, traced[place].shown_line)
            if unread.symbol != "batch":
                return unread
            self.fractions.append(Fraction(*pair, unread.line))
        return None

    def _unread_integer(
        self, number: int, of_values: Mapping[int, Place], traced: Sequence[ForwardCall]
    ) -> Unread | None:
        expected = evaluate(self.witness.size(number), self.values)
        wrong = {value: at for value, at in of_values.items() if value != expected}
        if not wrong:
            return None
        value, (place, index) = next(iter(wrong.items()))
        line = traced[place].shown_line
        if len(of_values) > 1 or number in self.constants or value == number:
            unread = self._unread(place, index, line, is_ambiguous=True)
            return replace(unread, constant=number if number in of_values else None)
        found = self._quotient(number, value, place, index)
        if found is None or number < _LEAST_QUOTIENT:
            return self._unread(place, index, line)
        self.derived[number] = found
        return None

    def _quotient(self, number: int, value: int, place: int, index: NumberPlace) -> str | None:
        call = self._calls(self.witness.primes)[place]

        def sample(sizes: Sizes) -> int | None:
            try:
                calls = self._calls(sizes)
            except NotRunnable:
                return None
            if place >= len(calls) or not calls[place].is_at(call):
                return None
            found = calls[place].number(index)
            return abs(found) if isinstance(found, int) else None

        points = [(self.witness.primes, number), (self.values, value)]
        divisors = [n for n in self.constants if 1 < n <= _LARGEST_DIVISOR]
        return quotient_of(points, symbols=self.witness.primes, divisors=divisors, sample=sample)

    def _unread(
        self, place: int, index: NumberPlace | None, line: str, *, is_ambiguous: bool = False
    ) -> Unread:
        """The call at this place, with a symbol that its number or the call itself depends on.

        The batch is named last: it cannot keep its value.
        """
        names = sorted(self.witness.primes, key=lambda name: name == "batch")
        stated = self._calls(self.values)
        for symbol in names:
            try:
                calls = self._calls({**self.values, symbol: self.witness.primes[symbol]})
            except NotRunnable:
                continue
            if _number(calls, place, index) != _number(stated, place, index):
                return Unread(symbol, line, is_ambiguous)
        return Unread(names[0], line, is_ambiguous)

    def _is_read(self, traced: float, stated: float) -> bool:
        """Whether a number is an integer, or 1 by an integer, that the witness reads."""
        for one, other in ((traced, stated), (1 / traced, 1 / stated)):
            size = round(one)
            is_integer = size != 0 and abs(one - size) <= _TOLERANCE * abs(size)
            if is_integer and abs(other) < 1e15:
                expected = evaluate(self.witness.size(abs(size)), self.values)
                if abs(abs(other) - expected) <= _TOLERANCE * expected:
                    return True
        return False

    def _calls(self, sizes: Sizes) -> list[ForwardCall]:
        return self.passes.at(sizes).calls


@dataclass
class _Occurrences:
    """Numbers by their values in both passes.

    integers: by traced number and stated number, the first call and index. fractions: those of
    each pair that differs.
    """

    integers: dict[int, dict[int, Place]] = field(default_factory=dict)
    fractions: dict[tuple[float, float], Place] = field(default_factory=dict)

    def add(self, traced: float, stated: float, place: int, index: NumberPlace) -> None:
        if isinstance(traced, int) and isinstance(stated, int) and (traced < 0) == (stated < 0):
            self.integers.setdefault(abs(traced), {}).setdefault(abs(stated), (place, index))
        elif traced != stated and not (traced != traced and stated != stated):
            self.fractions.setdefault((traced, stated), (place, index))


def _either(one: ForwardCall | None, other: ForwardCall | None) -> ForwardCall:
    call = one or other
    assert call is not None
    return call


def _number(calls: Sequence[ForwardCall], place: int, index: NumberPlace | None) -> object:
    """The number of a call at this place; for None, the call without its numbers."""
    if place >= len(calls):
        return None
    call = calls[place]
    number = None if index is None else call.number(index)
    if number is not None:
        return number
    return call.line, call.function, len(call.groups)


def in_graph(item: object, fractions: Iterable[Fraction]) -> object:
    """An attribute with the numbers of the graph for those of the trace."""
    if isinstance(item, float):
        return next((f.stated for f in fractions if f.traced == item), item)
    if isinstance(item, list):
        return [in_graph(part, fractions) for part in item]
    if isinstance(item, tuple):
        return tuple(in_graph(part, fractions) for part in item)
    return item


def floats_in(item: object) -> Iterator[float]:
    """The floating numbers of an attribute."""
    if isinstance(item, float):
        yield item
    elif isinstance(item, (list, tuple)):
        for part in item:
            yield from floats_in(part)
