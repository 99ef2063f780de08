"""What a plan does op by op, over HTTP: layouts, costs that add up, globs, pages."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.schema import Plan, Setup
from tests.service.conftest import Serve
from tests.service.shelved import store, store_for
from tests.solver.layered import layered
from tests.solver.small_graphs import topology


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


@pytest.fixture
def plan(service: TestClient) -> Plan:
    return store_for(service, layered(4), topology(2, 2), Setup(microbatches=2))


def strategies(service: TestClient, plan: Plan, **given: str | int) -> Any:
    answer = service.get(f"/v1/plans/{plan.id}/strategies", params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_ops_add_up_to_what_the_plan_costs(service: TestClient, plan: Plan) -> None:
    found = strategies(service, plan, page_size=1000)["strategies"]
    (stage,) = plan.stages
    assert [own["op"] for own in found] == [op.op for op in stage.ops]
    costs = [own["cost"] for own in found]
    moved = sum(plan.cost.communication_ns.values())
    assert sum(cost["communication_ns"] for cost in costs) == pytest.approx(moved)
    assert sum(cost["compute_ns"] for cost in costs) == pytest.approx(
        sum(op.compute_ns for op in stage.ops)
    )
    use = plan.cost.memory_bytes
    resting = use.parameters + use.gradients + use.optimizer
    assert sum(cost["parameter_bytes"] for cost in costs) == resting
    assert sum(cost["saved_bytes"] for cost in costs) == use.activations


def test_an_op_says_which_axes_shard_what_it_reads_and_makes(
    service: TestClient, plan: Plan
) -> None:
    (own,) = strategies(service, plan, op="1.linear")["strategies"]
    planned = next(op for op in plan.stages[0].ops if op.op == "1.linear")
    rest = {tensor.tensor: tensor.rest.value for tensor in plan.stages[0].tensors}
    (made,) = own["outputs"]
    assert made["tensor"] == "1.linear:out"
    assert made["axes"] == [[*dim.axes] for dim in rest["1.linear:out"].dims]
    assert {factor: [*axes] for factor, axes in planned.strategy.items() if axes} == own["strategy"]
    # what the op reads is cut as its strategy says: the batch of both alike
    assert own["inputs"][0]["axes"][0] == made["axes"][0]
    assert own["rule"] == planned.rule


def test_a_view_is_read_as_its_root_lies(service: TestClient, plan: Plan) -> None:
    (loss,) = strategies(service, plan, op="loss")["strategies"]
    assert loss["inputs"][0]["tensor"] == "flat:out"
    assert loss["inputs"][0]["root"] == "logits:out"


def test_globs_choose_and_pages_follow_each_other(service: TestClient, plan: Plan) -> None:
    first = strategies(service, plan, op="*.linear", page_size=3)
    assert first["ops"] == 4
    assert [own["op"] for own in first["strategies"]] == ["0.linear", "1.linear", "2.linear"]
    second = strategies(
        service, plan, op="*.linear", page_size=3, page_token=first["next_page_token"]
    )
    assert [own["op"] for own in second["strategies"]] == ["3.linear"]
    assert "next_page_token" not in second
    assert strategies(service, plan, op="(a+)+$")["strategies"] == []


def test_modules_and_all_within_them_are_a_block(service: TestClient) -> None:
    plan = store(service, [2, 4])
    for block, ops in (
        ("layers.0", ["layers.0.linear"]),
        ("layers", ["layers.0.linear", "layers.1.linear"]),
        ("*.1", ["layers.1.linear"]),
        ("layer", []),
    ):
        found = strategies(service, plan, block=block)["strategies"]
        assert [own["op"] for own in found] == ops, block


def test_who_has_it_gets_304(service: TestClient, plan: Plan) -> None:
    path = f"/v1/plans/{plan.id}/strategies"
    answer = service.get(path)
    tag = {"If-None-Match": answer.headers["etag"]}
    assert service.get(path, headers=tag).status_code == 304
    assert service.get(path, params={"op": "loss"}, headers=tag).status_code == 200
    assert service.get("/v1/plans/plan_0/strategies", headers=tag).status_code == 404


@pytest.mark.parametrize("token", ["WzFlOTk5LCAiIl0", "W05hTiwgIiJd", "WyJhIiwgIiJd"])
def test_a_token_that_is_no_place_is_refused(service: TestClient, plan: Plan, token: str) -> None:
    answer = service.get(f"/v1/plans/{plan.id}/strategies", params={"page_token": token})
    assert answer.status_code == 422
