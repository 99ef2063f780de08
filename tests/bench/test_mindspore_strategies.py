"""Cuts as MindSpore writes them, and what they say of the parts of our ops."""

from __future__ import annotations

from functools import cache

import pytest

from bench.mindspore_strategies import by_level, parse_cuts, recorded, spelt_out, ways_of
from meshwright.schema import ConversionError
from tests.bench.mindspore_cases import small_problem

problem = cache(small_problem)

# what MindSpore gives no strategy: reshapes and casts; what depends on no parameter it never saw
SILENT = {
    *("reshape", "cast", "arange", "concat", "cos", "sin", "mul", "pad", "slice"),
}


def ways(name: str, cuts: str) -> dict[str, int]:
    op = problem().op_by_name[name]
    found = ways_of(problem(), op, parse_cuts(cuts))
    return {op.parts[part].name: count for part, count in found.items()}


def test_cuts_are_ways_of_an_ops_factors() -> None:
    assert parse_cuts("(8,1) () (2)") == ((8, 1), (), (2,))
    assert ways("fc1.matmul", "(2,1) (1,4)") == {"m": 2, "k": 1, "n": 4}
    assert ways("fc2.add", "(2,4) (4)") == {"d0": 2, "d1": 4}
    assert ways("loss.one_hot", "(4,2) () ()") == {"d0": 4, "c": 2}


def test_cuts_that_contradict_each_other_or_the_shape_are_refused() -> None:
    with pytest.raises(ConversionError, match=r"op 'fc1.matmul': 'k' is cut in 2 and 4"):
        ways("fc1.matmul", "(1,4) (2,1)")
    with pytest.raises(ConversionError, match="is not cut into 7 equal parts"):
        ways("fc1.matmul", "(7,1) (1,1)")
    with pytest.raises(ConversionError, match=r"cuts \(8,\) of the shape \[64, 64\]"):
        ways("fc1.matmul", "(8) (1,1)")


def test_devices_are_numbered_along_the_factors() -> None:
    op = problem().op_by_name["fc1.matmul"]
    m, k, n = (next(j for j, part in enumerate(op.parts) if part.name == f) for f in "mkn")
    # 4 nodes of 8: rows first, so over the nodes and in pairs within, columns over the rest
    assert by_level(op, {m: 8, k: 1, n: 2}, [4, 8]) == [{m: 4}, {m: 2, n: 2}]
    assert by_level(op, {m: 2, k: 2, n: 2}, [4, 8]) == [{m: 2, k: 2}, {n: 2}]
    with pytest.raises(ConversionError, match="do not meet"):
        by_level(op, {m: 3, k: 1, n: 2}, [4, 8])


def test_a_row_of_numbers_stands_for_that_many_ops() -> None:
    assert spelt_out("blocks.2-4.q") == ["blocks.2.q", "blocks.3.q", "blocks.4.q"]
    assert spelt_out("loss.ce") == ["loss.ce"]


def test_every_recorded_strategy_is_of_an_op_with_as_many_dims() -> None:
    for case in recorded():
        graph, cuts = case.graph(), case.cuts()
        ranks = {tensor.name: len(tensor.shape) for tensor in graph.tensors}
        ops = {op.name: op for op in graph.ops}
        assert set(cuts) <= set(ops)
        assert {op.kind for name, op in ops.items() if name not in cuts} <= SILENT
        for name, own in cuts.items():
            op = ops[name]
            given = op.outputs if op.kind == "one_hot" else op.inputs
            pairs = zip(given, own, strict=False)
            assert [len(counts) for _, counts in pairs if counts] == [
                ranks[t] for t, counts in zip(given, own, strict=False) if counts
            ], (case.name, name)
