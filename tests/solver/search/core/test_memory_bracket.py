"""The price of memory, bracketed: three choices worked by hand, random ones against all prices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import ChoiceCost
from meshwright_solver.search.core.memory_bracket import MemoryBracket, PricedChoice

A = PricedChoice("a", ChoiceCost(0.0, 10.0))
B = PricedChoice("b", ChoiceCost(4.0, 2.0))
C = PricedChoice("c", ChoiceCost(1.0, 6.0))


def cheapest(price: float) -> PricedChoice[str]:
    return min((A, B, C), key=lambda own: own.at(price, 0.0))


def cheapest_below(bracket: MemoryBracket[str], price: float) -> PricedChoice[str] | None:
    found = cheapest(price)
    meeting = bracket.pair[0].at(price, 0.0)
    return found if found.at(price, 0.0) < meeting - 1e-9 else None


def test_prices_narrow_to_where_no_choice_lies_below() -> None:
    bracket = MemoryBracket(5.0, over=A, within=B)
    # a and b meet at 4 / 8, where c lies at 1 + 3 = 4 below 5; c and b meet at 3 / 4
    prices = list(bracket.narrow(lambda price: cheapest_below(bracket, price), 10))
    assert prices == [0.5]
    assert bracket.pair == (C, B)
    assert bracket.meeting_price() == 0.75


def test_prices_rise_until_a_choice_is_within_the_limit() -> None:
    bracket = MemoryBracket(5.0, over=A)
    asked: list[float] = []

    def solve(price: float) -> PricedChoice[str]:
        asked.append(price)
        return cheapest(price)

    bracket.grow(solve, 0.1, 4.0, 10)
    # a at 0.1, c at 0.4, b from 0.75 on
    assert asked == pytest.approx([0.1, 0.4, 1.6])
    assert bracket.pair == (C, B)


def test_prices_fall_where_the_choice_above_the_limit_is_missing() -> None:
    bracket = MemoryBracket(5.0, within=B)
    bracket.grow(cheapest, 3.0, 4.0, 10)
    assert bracket.pair[0] in (A, C)


def test_a_search_that_gives_up_ends_the_bracket() -> None:
    bracket: MemoryBracket[str] = MemoryBracket(5.0, over=A)
    bracket.grow(lambda _: None, 0.1, 4.0, 10)
    assert bracket.within is None


def test_a_forbidden_choice_is_no_side() -> None:
    bracket = MemoryBracket(5.0, over=A)
    bracket.add(PricedChoice("x", ChoiceCost(math.inf, 1.0)), 1.0)
    assert bracket.within is None


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(20))
def test_the_peak_is_the_least_mix_of_two_choices_at_the_limit(seed: int) -> None:
    random = np.random.default_rng(seed)
    choices = [
        PricedChoice(number, ChoiceCost(float(cost), float(memory)))
        for number, (cost, memory) in enumerate(random.integers(0, 1000, (30, 2)))
    ]
    limit = 500.0
    over = min(
        (own for own in choices if own.cost.memory_bytes > limit), key=lambda own: own.cost.cost_ns
    )
    within = min(
        (own for own in choices if own.cost.memory_bytes <= limit), key=lambda own: own.cost.cost_ns
    )
    if within.cost.cost_ns <= over.cost.cost_ns:
        return
    bracket = MemoryBracket(limit, over, within)

    def solve(price: float) -> PricedChoice[int] | None:
        found = min(choices, key=lambda own: own.at(price, limit))
        return found if found.at(price, limit) < bracket.pair[0].at(price, limit) - 1e-6 else None

    for _ in bracket.narrow(solve, 100):
        pass
    price = bracket.meeting_price()
    bound = min(own.at(price, limit) for own in choices)
    every = np.linspace(0.0, 10.0, 2001)
    assert bound >= max(min(own.at(p, limit) for own in choices) for p in every.tolist()) - 1e-6
