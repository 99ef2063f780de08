"""Embedding tables cut into chunks of the user's own lengths, one for each chunk of the fields."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Graph, Pin, Plan, RuleError, Setup
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.execution.kernels import KERNELS, KernelCall
from meshwright_solver.verification.verify import verify
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, models, problem, topology

CHUNKS = [3, 9, 5, 7]


def fields(chunks: list[int] | None = None, *, tied: bool = False, cast: bool = False) -> Graph:
    """24 rows for 8 fields of 4 examples, a product of what they find, and a loss."""
    make = GraphMaker()
    table = make.parameter("table", 24, 6)
    looked = make.op("gelu", [table], [24, 6], "made") if cast else table
    ids = make.input("ids", 4, 8, dtype="int64")
    attrs = {"manual_split": chunks or CHUNKS}
    found = make.op("embedding", [looked, ids], [4, 8, 6], "it", attrs=attrs)
    out = make.op("linear", [found, make.parameter("w", 6, 6)], [4, 8, 6], "out")
    if tied:
        out = make.op("linear", [out, table], [4, 8, 24], "tied")
    shape = [0, 1, 2]
    loss = make.op("mean", [out], [], "loss", attrs={"dims": shape})
    return make.graph(loss, loss=loss)


def planned(graph: Graph, strategy: dict, sizes: tuple[int, ...]) -> tuple[Problem, Plan]:
    devices, setup = topology(*sizes), Setup(microbatches=1)
    pins = (Pin(op="it", strategy=strategy),)
    answer = plan(toy_request(graph=graph, topology=devices, setup=setup, pins=pins))
    assert answer.plan is not None
    return problem(graph, devices, setup), answer.plan


def test_a_chunk_of_rows_lies_where_its_fields_are_and_nothing_moves() -> None:
    problem_, found = planned(fields(), {"b1": ("node", "gpu")}, (2, 2))
    (own,) = (own for own in found.stages[0].ops if own.op == "it")
    assert (own.rule, own.followers, own.own_steps) == ("v@b1 h, b0 b1 -> b0 b1 h", (), ())
    (table,) = (own for own in found.stages[0].parameters if own.tensor == "table")
    for layout in (table.value, table.gradient, table.optimizer):
        assert layout is not None
        part = layout.dims[0].parts[0]
        assert (part.axes, part.chunks) == (("node", "gpu"), (3, 9, 5, 7))
        assert layout.local_shape(found.stages[0].mesh) == (9, 6)
    # memory by the longest chunk: 9 of 24 rows of 6 floats
    assert table.value_bytes == 9 * 6 * 4
    assert not any(moved.tensor in ("table", "it:out") for moved in found.stages[0].redistributions)
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


@pytest.mark.parametrize(
    ("strategy", "sizes"),
    [
        ({"b1": ("gpu",), "b0": ("node",)}, (2, 4)),
        ({"b1": ("gpu",), "h": ("node",)}, (2, 4)),
        ({"b0": ("node", "gpu")}, (2, 2)),
        ({"h": ("node",)}, (2, 4)),
    ],
)
def test_other_axes_lie_as_in_any_embedding(strategy: dict, sizes: tuple[int, ...]) -> None:
    problem_, found = planned(fields(), strategy, sizes)
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


def test_as_many_axes_as_there_are_chunks_or_none_lie_on_the_fields() -> None:
    found = models(fields(), (2, 4))
    position = next(k for k, op in enumerate(found.problem.ops) if op.name == "it")
    part = next(j for j, part in enumerate(found.problem.ops[position].parts) if part.name == "b1")
    sizes = np.array([2, 4])
    on = found.ops.model(position).choices == part
    assert set(np.where(on, sizes, 1).prod(axis=1).tolist()) == {1, 4}


def test_another_reader_needs_the_table_whole() -> None:
    problem_, found = planned(fields(tied=True), {"b1": ("node", "gpu")}, (2, 2))
    (tied,) = (own for own in found.stages[0].ops if own.op == "tied")
    assert "n" not in tied.strategy
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


def test_a_table_that_an_op_makes_stays_whole() -> None:
    problem_, found = planned(fields(cast=True), {"b1": ("node", "gpu")}, (2, 2))
    assert problem_.tensors["made:out"].chunks == {}
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


def test_ids_are_numbers_of_rows_of_the_whole_table() -> None:
    table = np.arange(24.0)[:, None]
    ids = np.array([[0, 2, 3, 11, 12, 16, 17, 23]])
    attrs = {"manual_split": CHUNKS}
    call = KernelCall("embedding", attrs, (table, ids), ((1, 8, 1),))
    np.testing.assert_array_equal(KERNELS["embedding"].forward(call)[0][0, :, 0], ids[0])


@pytest.mark.parametrize("chunks", [[24, 0], [12, 11], [8, 8, 8]])
def test_chunks_that_do_not_make_up_the_table_are_refused_by_name(chunks: list[int]) -> None:
    with pytest.raises(RuleError, match=r"op 'it' .*manual_split.*24 rows.*8 fields"):
        problem(fields(chunks), topology(2))


def test_one_table_has_one_manual_split() -> None:
    make = GraphMaker()
    table, ids = make.parameter("table", 24, 6), make.input("ids", 4, 8, dtype="int64")
    for name, chunks in (("one", [12, 12]), ("other", [6, 18])):
        attrs = {"manual_split": chunks}
        make.op("embedding", [table, ids], [4, 8, 6], name, attrs=attrs)
    with pytest.raises(RuleError, match="op 'other' splits the rows of 'table'"):
        problem(make.graph("one:out", "other:out"), topology(2))
