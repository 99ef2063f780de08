from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from meshwright.schema import InvalidInput, TooLarge
from meshwright.schema.cost_graph import CostGraphFile, CostGraphSolution
from tests.solver.cost_graph_files import CONTEST_EXAMPLE, TWO_NODES


def read(problem: Any) -> CostGraphFile:
    return CostGraphFile.from_json(json.dumps({"problem": problem}))


def changed(place: str, value: Any) -> dict[str, Any]:
    """TWO_NODES with another value at a place such as nodes/costs/1."""
    problem = copy.deepcopy(TWO_NODES)
    *path, last = [int(part) if part.isdigit() else part for part in place.split("/")]
    table: Any = problem
    for part in path:
        table = table[part]
    table[last] = value
    return problem


def test_a_file_of_the_contest_is_read() -> None:
    problem = read(CONTEST_EXAMPLE).problem
    assert problem.name == "example"
    assert problem.nodes.costs[2] == (25.0, 45.0, 35.0)
    assert problem.edges.nodes[2] == (1, 3)
    assert problem.usage_limit == 50.0


def test_fields_of_other_writers_are_left() -> None:
    assert read({**TWO_NODES, "version": {"of": "a compiler"}}) == read(TWO_NODES)


def test_edges_and_limit_may_be_missing() -> None:
    problem = read({"nodes": TWO_NODES["nodes"]}).problem
    assert (problem.edges.nodes, problem.usage_limit) == ((), None)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("nodes/costs/1/0", "x", "node 1: costs, entry 0: Input should be a valid number, got 'x'"),
        ("nodes/costs/1/0", True, "got True. Use a number from -1e17, and 1e18 where"),
        ("nodes/costs/1/0", float("nan"), "node 1: costs, entry 0: .*finite number, got nan"),
        ("nodes/costs/1/0", float("inf"), "finite number, got inf. Use .* 1e18 where the strategy"),
        ("nodes/costs/1/0", -(10**18), "node 1: costs, entry 0: .*greater than or equal to -1"),
        ("nodes/costs/1/0", 10**400, "node 1: costs, entry 0: .*finite"),
        ("nodes/costs/1", 7, "node 1: costs: Input should be a valid array, got 7"),
        ("nodes/costs/1", [], "node 1: it has no strategy"),
        ("nodes/costs", [[1, 2]], "nodes: costs has 1 entries and intervals 2"),
        ("nodes/usages/1/0", -1, "node 1: usages, entry 0: .*greater than or equal to 0, got -1"),
        ("nodes/usages/1", [1], "node 1: 2 costs and 1 usage. Give each strategy"),
        ("nodes/usages", [], "nodes: costs has 2 entries and usages 0"),
        ("nodes/intervals/1", [3, 2], "node 1: the interval ends at 2, before it starts at 3"),
        ("nodes/intervals/1", [1], "node 1: intervals, entry 1: .*Use two whole numbers"),
        ("nodes/intervals/1", [1, 2, 3], "node 1: intervals: .*Use two whole numbers"),
        ("nodes/intervals/1/0", 0.5, "node 1: intervals, entry 0: .*valid integer, got 0.5"),
        ("nodes/intervals/1/1", 2**70, "node 1: intervals, entry 1: .*less than or equal"),
        ("nodes", 3, "nodes: Input should be an object, got 3. Write {problem"),
        ("edges/nodes/0", [0, 2], "edge 0: there is no node 2. Use node numbers: 0 to 1"),
        ("edges/nodes/0", [-1, 0], "edge 0: nodes, entry 0: .*Use the numbers of two nodes"),
        ("edges/nodes/0", [1, 1], "edge 0: it joins node 1 to itself"),
        ("edges/nodes/0", [1], "edge 0: nodes, entry 1: .*Use the numbers of two nodes"),
        ("edges/costs/0", [1, 2, 3], "edge 0: 3 costs, while nodes 0 and 1 have 2 and 2 .*Give it"),
        ("edges/costs", [], "edges: nodes has 1 entries and costs 0"),
        ("edges", None, "edges: Input should be an object"),
        ("usage_limit", -1, "usage_limit: .*Use a number from 0, or leave it out"),
        ("usage_limit", "much", "usage_limit: Input should be a valid number, got 'much'"),
    ],
)
def test_what_is_wrong_is_named(place: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as raised:
        read(changed(place, value))
    assert raised.value.pointer.startswith("/problem")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "this is not JSON"),
        (b"hello", "this is not JSON"),
        (b"[]", "the file: Input should be an object, got \\[\\]. Write {problem"),
        (b"null", "the file: Input should be an object"),
        (b"{}", "problem: Field required"),
        (b'{"problem": 3}', "problem: Input should be an object, got 3"),
        (b"\xff\xfe{}", "this is not JSON"),
        (b"[" * 100_000, "recursion limit"),
        (b'{"problem": {"nodes": {"costs": [[1e400]]}}}', "nodes intervals: Field required"),
        (b'{"problem": ' + b"9" * 5000 + b"}", "this is not JSON: number out of range"),
    ],
)
def test_what_is_no_cost_graph_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        CostGraphFile.from_json(text)


def test_a_file_of_too_many_numbers_is_refused_before_it_is_read() -> None:
    with pytest.raises(TooLarge, match="at most 50,000,000 numbers, got 50,000,001"):
        CostGraphFile.from_json(b"[" + b"0," * 50_000_000 + b"0]")


def test_an_edge_without_nodes_is_refused() -> None:
    empty = {"intervals": [], "costs": [], "usages": []}
    with pytest.raises(InvalidInput, match=r"there is no node 1\. Use node numbers: none"):
        read({"nodes": empty, "edges": {"nodes": [[0, 1]], "costs": [[1]]}})


@pytest.mark.parametrize("kind", [CostGraphFile, CostGraphSolution])
def test_every_field_is_described(kind: type[CostGraphFile] | type[CostGraphSolution]) -> None:
    schema = kind.model_json_schema()
    for part in [schema, *schema.get("$defs", {}).values()]:
        for name, field in part["properties"].items():
            assert field.get("description") or name == "schema_version", name
