"""Symbolic sizes by witness: tracing with large primes for the symbols, then factoring sizes.

A program is traced once. A prime that divides no other number of the program replaces each symbol.
A traced size n is then one of

    c * batch^i * seq^j          c, i, j whole numbers
    batch^i * (c * seq + d)      c and d small: padding, shifting, distances of positions

which its factors determine. `size_reading.py` finds expressions for sizes that depend on a symbol
in another way (rounded up, halved with a remainder).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meshwright.schema.errors import GraphError
from meshwright.schema.sizes import Size

# chosen: above the dims of current models, so that a dim is rarely near a multiple of it
BATCH_WITNESS = 10_007
SMALLEST_WITNESS = 11
# chosen: the largest shift that is recognized, by the least prime. Causal convolutions pad by 3.
# Near a small prime there are unrelated sizes (a head of 64 next to 67)
_REACHES = ((1000, 8), (100, 3), (0, 1))
_LEAST_FACTOR = 100  # chosen: a multiple of a smaller number is often a number of the model
_MOST_TIMES = 2  # chosen: a sequence has 2 * seq - 1 distances between positions


class WitnessError(GraphError):
    """No prime below a limit can stand for a symbol."""


@dataclass(frozen=True)
class Witness:
    """The primes of the symbols; an empty witness leaves every size a number.

    values: what the symbols are in the graph, where that is known. derived: expressions by the
    number that stands for them.
    """

    primes: Mapping[str, int] = field(default_factory=dict)
    derived: dict[int, str] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def choose(
        cls,
        limits: Mapping[str, int],
        constants: Iterable[int],
        *,
        values: Mapping[str, int] | None = None,
    ) -> Witness:
        """A prime for each symbol, at most its limit, distinguishable from all constants."""
        taken = {abs(constant) for constant in constants}
        primes: dict[str, int] = {}
        for name, limit in limits.items():
            prime = next((p for p in _primes_down(limit) if _is_distinguishable(p, taken)), None)
            if prime is None:
                raise WitnessError(
                    f"symbol {name!r}: every prime up to {limit} is too close to sizes of the "
                    f"model. Use a limit of at least {SMALLEST_WITNESS}, or a fixed size"
                )
            primes[name] = prime
            taken.add(prime)
        return cls(primes, values=values or {})

    def stand_in(self, expression: str) -> int:
        """A number for tracing that represents an expression."""
        for number, known in self.derived.items():
            if known == expression:
                return number
        number = max([*self.primes.values(), *self.derived]) ** 2 + 1
        self.derived[number] = expression
        return number

    def size(self, number: int) -> Size:
        """The size of a traced number: an expression where it depends on a symbol."""
        if number in self.derived:
            return self.derived[number]
        if self.derived and (product := self._product_of_derived(number)) is not None:
            return product
        if all(number < prime - _reach(prime) for prime in self.primes.values()):
            return number
        rest, factors = self._factorize(number)
        for name, prime in self.primes.items():
            times = min(max(round(rest / prime), 1), _MOST_TIMES)
            if 0 < abs(rest - times * prime) <= _reach(prime):
                shifted = f"{_product(times, [name])}{rest - times * prime:+d}"
                return _product(1, [*factors, f"({shifted})"]) if factors else shifted
        return _product(rest, factors) if factors else number

    def _product_of_derived(self, number: int) -> str | None:
        """A multiple of a derived number, maybe with symbols, as an expression."""
        for derived, expression in self.derived.items():
            if derived >= _LEAST_FACTOR and number and number % derived == 0:
                rest, factors = self._factorize(number // derived)
                if isinstance(self._plain(rest), int):
                    return _product(rest, [*factors, f"({expression})"])
        return None

    def _plain(self, number: int) -> Size:
        """The size of a number without derived ones."""
        return Witness(self.primes).size(number)

    def _factorize(self, number: int) -> tuple[int, list[str]]:
        factors: list[str] = []
        for name, prime in self.primes.items():
            while number and number % prime == 0:
                number //= prime
                factors.append(name)
        return number, factors


def _product(constant: int, factors: list[str]) -> str:
    return "*".join([*([str(constant)] if constant != 1 else []), *factors])


def _reach(prime: int) -> int:
    """The largest shift of a size from a prime that is recognized as a symbolic offset."""
    return next(reach for least, reach in _REACHES if prime >= least)


def _is_distinguishable(prime: int, constants: Iterable[int]) -> bool:
    """Whether no constant is a multiple of the prime, or near one."""
    reach = _reach(prime)
    return all(
        number < prime - reach or reach < number % prime < prime - reach for number in constants
    )


def _primes_down(limit: int) -> Iterable[int]:
    for number in range(limit, SMALLEST_WITNESS - 1, -1):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number
