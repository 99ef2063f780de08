"""Small values of a graph's symbols, found by hand here."""

from __future__ import annotations

from solver.execution.symbol_sizes import SymbolSizes, Wanted


def sizes(*wanted: tuple[str, Wanted], symbols: tuple[str, ...] = ("b", "s")) -> list[int] | None:
    found = SymbolSizes()
    for k, (length, own) in enumerate(wanted):
        found.add(("x", k), length, own)
    made = found.sizes(symbols)
    return None if made is None else [made["x", k] for k in range(len(wanted))]


def test_what_follows_a_symbol_stays_a_slot() -> None:
    # s = 4 makes s//4 one, which is no slot; s = 8 makes it two
    assert sizes(("s", Wanted(2, 2)), ("s//4", Wanted(1, 2))) == [8, 2]
    assert sizes(("s", Wanted(2, 2)), ("s//4", Wanted(4, 2))) == [16, 4]


def test_what_is_one_in_the_graph_may_be_one() -> None:
    assert sizes(("s", Wanted(1, 2)), ("s//2", Wanted(1, 1))) == [2, 1]


def test_only_the_symbols_of_what_is_short_grow() -> None:
    assert sizes(("b", Wanted(1, 2)), ("s", Wanted(8, 2)), ("b*s", Wanted(1, 2))) == [2, 8, 16]


def test_uneven_cuts_stay_uneven_and_end_as_they_do_in_the_plan() -> None:
    # three over two: 2 and 1; two over four: 1, 1 and twice none
    assert sizes(("s", Wanted(2, 2, ends_empty=False))) == [3]
    assert sizes(("s", Wanted(4, 2, ends_empty=True))) == [2]


def test_an_uneven_cut_needs_a_slot_too() -> None:
    # s//4 is one at s = 4: over four the last chunks are empty, but there is no slot
    assert sizes(("s", Wanted(1, 2)), ("s//4", Wanted(4, 2, ends_empty=True))) == [8, 2]


def test_none_where_no_value_will_do() -> None:
    assert sizes(("2*s+1", Wanted(2, 2))) is None
    # what the plan cuts unevenly is never executed evenly instead
    assert sizes(("4*s", Wanted(4, 2, ends_empty=False))) is None
