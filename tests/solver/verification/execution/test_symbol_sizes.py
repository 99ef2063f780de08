"""Small values of a graph's symbols, found by hand here."""

from __future__ import annotations

from meshwright_solver.verification.execution.symbol_sizes import SizeRequirement, SymbolSizes


def sizes(
    *wanted: tuple[str, SizeRequirement], symbols: tuple[str, ...] = ("b", "s")
) -> list[int] | None:
    found = SymbolSizes()
    for k, (length, own) in enumerate(wanted):
        found.add(("x", k), length, own)
    made = found.sizes(symbols)
    return None if made is None else [made["x", k] for k in range(len(wanted))]


def test_what_follows_a_symbol_stays_a_slot() -> None:
    # s = 4 makes s//4 one, which is no slot; s = 8 makes it two
    assert sizes(("s", SizeRequirement(2, 2)), ("s//4", SizeRequirement(1, 2))) == [8, 2]
    assert sizes(("s", SizeRequirement(2, 2)), ("s//4", SizeRequirement(4, 2))) == [16, 4]


def test_what_is_one_in_the_graph_may_be_one() -> None:
    assert sizes(("s", SizeRequirement(1, 2)), ("s//2", SizeRequirement(1, 1))) == [2, 1]


def test_only_the_symbols_of_what_is_short_grow() -> None:
    assert sizes(
        ("b", SizeRequirement(1, 2)), ("s", SizeRequirement(8, 2)), ("b*s", SizeRequirement(1, 2))
    ) == [2, 8, 16]


def test_uneven_cuts_stay_uneven_and_end_as_they_do_in_the_plan() -> None:
    # three over two: 2 and 1; two over four: 1, 1 and twice none
    assert sizes(("s", SizeRequirement(2, 2, ends_empty=False))) == [3]
    assert sizes(("s", SizeRequirement(4, 2, ends_empty=True))) == [2]


def test_an_uneven_cut_needs_a_slot_too() -> None:
    # s//4 is one at s = 4: over four the last chunks are empty, but there is no slot
    assert sizes(
        ("s", SizeRequirement(1, 2)), ("s//4", SizeRequirement(4, 2, ends_empty=True))
    ) == [8, 2]


def test_none_where_no_value_will_do() -> None:
    assert sizes(("2*s+1", SizeRequirement(2, 2))) is None
    # what the plan cuts unevenly is never executed evenly instead
    assert sizes(("4*s", SizeRequirement(4, 2, ends_empty=False))) is None
