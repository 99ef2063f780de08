"""Orders and cycles of ops, against networkx."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import GraphError, Op
from meshwright.schema.order import in_order


@st.composite
def programs(draw: st.DrawFn) -> tuple[Op, ...]:
    """Up to ten ops in any order, with one or two results each; most can run, some form cycles."""
    count = draw(st.integers(1, 10))
    made = [[f"t{k}.{port}" for port in range(draw(st.integers(1, 2)))] for k in range(count)]
    may_cycle = draw(st.booleans())
    ops = []
    for k in range(count):
        sources = made if may_cycle else made[:k]
        tensors = [name for names in sources for name in names] + ["weight"]
        inputs = draw(st.lists(st.sampled_from(tensors), max_size=3))
        ops.append(Op(name=f"op{k}", kind="any", inputs=tuple(inputs), outputs=tuple(made[k])))
    return tuple(draw(st.permutations(ops)))


def reads(ops: tuple[Op, ...]) -> nx.DiGraph:
    """Which op reads which, made by networkx alone."""
    maker = {tensor: op.name for op in ops for tensor in op.outputs}
    found = nx.DiGraph()
    found.add_nodes_from(op.name for op in ops)
    found.add_edges_from((maker[t], op.name) for op in ops for t in op.inputs if t in maker)
    return found


@settings(max_examples=400, deadline=None)
@given(programs())
def test_an_order_is_found_where_networkx_finds_one(ops: tuple[Op, ...]) -> None:
    graph = reads(ops)
    if not nx.is_directed_acyclic_graph(graph):
        with pytest.raises(GraphError) as wrong:
            in_order(ops)
        cycle = wrong.value.detail.split("cycle: ")[1].split(";")[0].split(" -> ")
        assert cycle[0] == cycle[-1]
        if "…" not in cycle:
            assert nx.is_path(graph, cycle)
            assert nx.is_simple_path(graph, cycle[:-1])
        assert all(own == "…" or in_a_cycle(graph, own) for own in cycle)
        assert ops[int(wrong.value.pointer.rsplit("/", 1)[1])].name == cycle[0]
        return
    order = in_order(ops)
    place = {op.name: k for k, op in enumerate(order)}
    assert sorted(place) == sorted(op.name for op in ops)
    assert all(place[a] < place[b] for a, b in graph.edges)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_ops_that_can_run_stay_and_others_go_as_networkx_sorts_them(ops: tuple[Op, ...]) -> None:
    graph = reads(ops)
    if nx.is_directed_acyclic_graph(graph):
        place = {op.name: k for k, op in enumerate(ops)}
        if all(place[a] < place[b] for a, b in graph.edges):
            assert in_order(ops) is ops
        else:
            assert [op.name for op in in_order(ops)] == list(nx.topological_sort(graph))


def in_a_cycle(graph: nx.DiGraph, op: str) -> bool:
    part = next(own for own in nx.strongly_connected_components(graph) if op in own)
    return len(part) > 1 or graph.has_edge(op, op)
