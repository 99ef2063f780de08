"""Sizes that are quotients of a symbol, from the values that they have at several sizes.

    n = m * ((u * s + b) // c) + d        s a symbol; m, u, c > 0; b, d whole numbers
    n = u * s + b

times other symbols. Each value of n leaves c values of b, so that a few sizes determine it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

Sizes = Mapping[str, int]
Point = tuple[Sizes, int]  # the sizes of symbols, and the value at them
Sample = Callable[[Sizes], int | None]

_DIVISORS = range(2, 65)  # chosen: numbers of parts that programs write; others are sizes of theirs
_SHIFTS = (0, 1, -1, 2, -2)
_MOST_SAMPLES = 8  # chosen: each is a forward pass; they halve the values of b


@dataclass(frozen=True)
class _Form:
    """m * ((u * s + b) // c) + d, with the least and the largest b that fit."""

    m: int
    u: int
    c: int
    d: int
    least: int
    largest: int

    def value(self, size: int, b: int) -> int:
        return self.m * ((self.u * size + b) // self.c) + self.d

    def narrowed(self, size: int, number: int) -> _Form | None:
        """The form with the b that fit this value too."""
        quotient, rest = divmod(number - self.d, self.m)
        first = quotient * self.c - self.u * size
        least, largest = max(self.least, first), min(self.largest, first + self.c - 1)
        return None if rest or least > largest else replace(self, least=least, largest=largest)

    def text(self, symbol: str) -> str:
        """The expression, whose division leaves no remainder."""
        times = symbol if self.u == 1 else f"{self.u}*{symbol}"
        if self.c == 1:
            return f"{times}{self.least:+d}"
        dividend = times if self.least == 0 else f"({times}{self.least:+d})"
        whole = f"({dividend}-{dividend}%{self.c})" if self.least else _whole(times, self)
        quotient = whole if self.m == self.c else f"{whole}//{self.c}"
        if self.m not in (1, self.c):
            quotient = f"{self.m}*({quotient})"
        return quotient if self.d == 0 else f"{quotient}{self.d:+d}"


def _whole(times: str, form: _Form) -> str:
    rest = times if form.u == 1 else f"({times})"
    return f"({times}-{rest}%{form.c})"


def quotient_of(
    points: Sequence[Point], *, symbols: Iterable[str], divisors: Iterable[int], sample: Sample
) -> str | None:
    """The expression of a number with these values, the first at the largest sizes; None if none.

    divisors: candidates for c besides small ones. sample: the value at other sizes, if known.
    """
    names = list(symbols)
    candidates = sorted({*_DIVISORS, *divisors})
    for symbol in names:
        for factors in _factors([name for name in names if name != symbol], points):
            values = [(sizes, number // _product(sizes, factors)) for sizes, number in points]

            def part(sizes: Sizes, factors: Sequence[str] = factors) -> int | None:
                number = sample(sizes)
                return None if number is None else number // _product(sizes, factors)

            for form in _forms(values, symbol, candidates):
                if (found := _determined(form, values[1][0], symbol, part)) is not None:
                    return "*".join([*factors, f"({found})" if factors else found])
    return None


def _factors(others: Sequence[str], points: Sequence[Point]) -> Iterator[list[str]]:
    """The other symbols that divide all values, then none."""
    dividing = [
        name for name in others if all(number % sizes[name] == 0 for sizes, number in points)
    ]
    if dividing:
        yield dividing
    yield []


def _product(sizes: Sizes, factors: Iterable[str]) -> int:
    product = 1
    for name in factors:
        product *= sizes[name]
    return product


def _forms(points: Sequence[Point], symbol: str, divisors: Sequence[int]) -> Iterator[_Form]:
    largest, number = points[0]
    for c in (1, *divisors):
        times = round(number * c / largest[symbol])
        if times < 1:
            continue
        reach = number if c == 1 else 4 * c
        for m, u in dict.fromkeys(((times, 1), (1, times)) if c > 1 else ((1, times),)):
            for d in _SHIFTS if m > 1 else (0,):
                form: _Form | None = _Form(m, u, c, d, -reach, reach)
                for sizes, value in points:
                    form = form and form.narrowed(sizes[symbol], value)
                if form is not None:
                    yield form


def _determined(form: _Form, sizes: Sizes, symbol: str, sample: Sample) -> str | None:
    """The expression of a form after samples near these sizes that leave one b and agree."""
    near = sizes[symbol]
    for _ in range(_MOST_SAMPLES):
        if form.least == form.largest:
            break
        narrowed = _after(form, _telling(form, near), sizes, symbol, sample)
        if narrowed is None:
            return None
        form = narrowed
    others = [near + 1, near + form.c + 1, near + 3 * form.c + 2]
    agrees = form.least == form.largest and all(
        _after(form, size, sizes, symbol, sample) is not None for size in others
    )
    return form.text(symbol) if agrees else None


def _after(form: _Form, size: int, sizes: Sizes, symbol: str, sample: Sample) -> _Form | None:
    number = sample({**sizes, symbol: size})
    return None if number is None else form.narrowed(size, number)


def _telling(form: _Form, near: int) -> int:
    """A size at which the values of b differ most evenly, where there is one."""
    half = (form.least + form.largest) // 2
    sizes = range(near + 1, near + 2 * form.c + 2)
    tells = (size for size in sizes if form.value(size, half) != form.value(size, half + 1))
    return next(tells, near + 1)
