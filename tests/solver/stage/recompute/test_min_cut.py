"""Minimum cuts of blocks equal the best of all sets."""

from __future__ import annotations

from itertools import product

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_solver.stage.recompute.min_cut import BlockValue, ops_again
from tests.solver.stage.recompute.random_blocks import block_of


def saved_bytes(values: list[BlockValue], again: set[int]) -> int:
    total = 0
    for value in values:
        needed = value.is_wanted or any(reader in again for reader in value.readers)
        if needed and value.producer not in again:
            total += value.bytes
    return total


def test_a_norm_is_done_again_and_the_product_behind_it_is_not() -> None:
    """x -> norm -> n -> product -> y -> gelu -> g; n, y and g are wanted, x is saved by others.

    Doing again norm and gelu leaves y; the product too would leave nothing, if it may.
    """
    values = [
        BlockValue(4, 0, (1,), True),
        BlockValue(16, 1, (2,), True),
        BlockValue(16, 2, (), True),
    ]
    assert ops_again(values, {0: 1.0, 2: 1.0}) == {0, 2}
    assert ops_again(values, {0: 1.0, 1: 9.0, 2: 1.0}) == {0, 1, 2}


def test_what_needs_as_much_as_it_frees_is_left() -> None:
    """A sum of two values that nobody else wants: either they are saved or the sum is."""
    values = [BlockValue(4, None, (0,), False), BlockValue(4, 0, (), True)]
    assert ops_again(values, {0: 1.0}) == set()
    assert ops_again([BlockValue(3, None, (0,), False), values[1]], {0: 1.0}) == {0}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_cut_is_the_best_of_all_sets(data: st.DataObject) -> None:
    ops, values = block_of(data)
    allowed = {op: float(data.draw(st.integers(1, 9))) for op in ops if data.draw(st.booleans())}
    found = ops_again(values, allowed)
    assert found <= set(allowed)
    sets = [
        {op for op, on in zip(allowed, chosen, strict=True) if on}
        for chosen in product((False, True), repeat=len(allowed))
    ]
    least = min(saved_bytes(values, own) for own in sets)
    assert saved_bytes(values, found) == least
    best = [own for own in sets if saved_bytes(values, own) == least]
    assert sum(allowed[op] for op in found) == min(sum(allowed[op] for op in own) for own in best)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_a_cut_saves_is_what_networkx_says(data: st.DataObject) -> None:
    """The same terms as a flow of networkx's: a value costs where one side reads the other's."""
    ops, values = block_of(data)
    graph = nx.DiGraph()
    graph.add_nodes_from(["again", "not"])
    for k, value in enumerate(values):
        producer = "not" if value.producer is None else value.producer
        readers = ["again"] if value.is_wanted else [*value.readers]
        graph.add_edge(("value", k), producer, capacity=value.bytes)
        graph.add_edges_from((reader, ("value", k)) for reader in readers)  # without a limit
    least, _ = nx.minimum_cut(graph, "again", "not")
    found = ops_again(values, dict.fromkeys(ops, 1.0))
    assert saved_bytes(values, found) == least
