"""Which tables may have sparse gradients."""

from __future__ import annotations

import pytest

from meshwright.schema import Constraints, Pipeline, Request, RequestError, Setup
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.strategies.sparse_tables import sparse_lookups, with_sparse_tables
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology


def tables(*, tied: bool = False, says: bool = False) -> Request:
    """Two tables that look alike, the head of one of them perhaps its own words."""
    maker = GraphMaker(batch=64)
    out = []
    for name in ("users", "items"):
        ids = maker.input(f"ids of {name}", "batch", dtype="int64")
        attrs = {"attrs": {"sparse": True}} if says and name == "users" else {}
        rows = maker.parameter(name, 4096, 64)
        out.append(maker.op("embedding", [rows, ids], ["batch", 64], f"look up {name}", **attrs))
    x = maker.op("mul", out, ["batch", 64], "both")
    head = "items" if tied else maker.parameter("head", 4096, 64)
    x = maker.op("linear", [x, head], ["batch", 4096], "logits")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [x, label], [], "loss")
    return toy_request(
        graph=maker.graph(loss, loss=loss), topology=topology(2, 2), setup=Setup(microbatches=1)
    )


def allowing(request: Request, *globs: str) -> Request:
    return request.model_copy(update={"constraints": Constraints(sparse_gradients=globs)})


def sparse(request: Request) -> set[str]:
    return {own.tensor for own in planned(request).stages[0].parameters if own.sparse_gradient}


def test_none_is_by_default() -> None:
    assert sparse(tables()) == set()


def test_of_tables_that_are_alike_only_the_one_that_is_named() -> None:
    assert sparse(allowing(tables(), "users")) == {"users"}
    assert sparse(allowing(tables(), "*s")) == {"users", "items"}


def test_a_graph_can_say_it() -> None:
    request = with_sparse_tables(tables(says=True))
    assert request.constraints.sparse_gradients == ("users",)
    assert sparse_lookups(request) == {"look up users"}
    assert sparse(tables(says=True)) == {"users"}


def test_a_table_that_another_op_reads_whole_is_none() -> None:
    assert sparse(allowing(tables(tied=True), "*")) == {"users"}
    with pytest.raises(RequestError, match=r"'items' matches no .*; there are tables like 'users'"):
        check(allowing(tables(tied=True), "items"))


def test_a_pipeline_allows_what_its_whole_graph_does() -> None:
    update = {"pipeline": Pipeline(ranks=2, cuts=("logits",)), "setup": Setup(microbatches=2)}
    request = allowing(tables(tied=True), "*").model_copy(update=update)
    found = plan(request).plan
    assert found is not None
    assert len(found.stages) == 2
    own = {(k, p.tensor) for k, s in enumerate(found.stages) for p in s.parameters
           if p.sparse_gradient}  # fmt: skip
    assert own == {(0, "users")}
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"
