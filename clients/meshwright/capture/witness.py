"""Symbolic sizes by witness: trace with large primes for the symbols, then read the sizes off.

A program is traced once, with each symbol replaced by a prime that divides no other number of the
program. A traced size n is then one of

    c * batch^i * seq^j          c, i, j whole numbers
    batch^i * (seq + d)          d small: padding and shifting

and the factors say which. A size that depends on a symbol in another way (rounded up, halved with a
rest) cannot be read off and stays the number that was traced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meshwright.schema.errors import GraphError
from meshwright.schema.sizes import Size

# chosen: above the dims of today's models, so that a dim is seldom near a multiple of it
BATCH_WITNESS = 10_007
SMALLEST_WITNESS = 11
# chosen: causal convolutions pad by 3. Near a small prime are sizes that follow from others (a head
# of 64 beside 67), so that there only a shift by one is told
_REACH, _SMALL = 8, 5000


@dataclass(frozen=True)
class Witness:
    """The primes that stood for the symbols; an empty one leaves every size a number."""

    primes: Mapping[str, int] = field(default_factory=dict)
    derived: dict[int, str] = field(default_factory=dict)

    @classmethod
    def choose(cls, limits: Mapping[str, int], constants: Iterable[int]) -> Witness:
        """A prime for each symbol, at most its limit, that no constant could be mistaken for."""
        taken = {abs(constant) for constant in constants}
        primes: dict[str, int] = {}
        for name, limit in limits.items():
            prime = next((p for p in _primes_down(limit) if _stands_out(p, taken)), None)
            if prime is None:
                raise GraphError(
                    f"symbol {name!r}: no prime up to {limit} can be told from the model's own "
                    f"sizes; give it a limit of at least {SMALLEST_WITNESS}, or a fixed size"
                )
            primes[name] = prime
            taken.add(prime)
        return cls(primes)

    def stand_in(self, expression: str) -> int:
        """A number to trace with in place of an extent that only an expression can say."""
        for number, known in self.derived.items():
            if known == expression:
                return number
        number = max([*self.primes.values(), *self.derived]) ** 2 + 1
        self.derived[number] = expression
        return number

    def size(self, number: int) -> Size:
        """The traced number as a size: an expression where it depends on a symbol."""
        if number in self.derived:
            return self.derived[number]
        if all(number < prime - _reach(prime) for prime in self.primes.values()):
            return number
        rest, factors = self._factored(number)
        for name, prime in self.primes.items():
            if 0 < abs(rest - prime) <= _reach(prime):
                shifted = f"{name}{rest - prime:+d}"
                return _product(1, [*factors, f"({shifted})"]) if factors else shifted
        return _product(rest, factors) if factors else number

    def _factored(self, number: int) -> tuple[int, list[str]]:
        factors: list[str] = []
        for name, prime in self.primes.items():
            while number and number % prime == 0:
                number //= prime
                factors.append(name)
        return number, factors


def _product(constant: int, factors: list[str]) -> str:
    return "*".join([*([str(constant)] if constant != 1 else []), *factors])


def _reach(prime: int) -> int:
    """How far from a prime a size still is the symbol with something added."""
    return _REACH if prime >= _SMALL else 1


def _stands_out(prime: int, constants: Iterable[int]) -> bool:
    """No constant is a multiple of the prime, or near one."""
    reach = _reach(prime)
    return all(
        number < prime - reach or reach < number % prime < prime - reach for number in constants
    )


def _primes_down(limit: int) -> Iterable[int]:
    for number in range(limit, SMALLEST_WITNESS - 1, -1):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number
