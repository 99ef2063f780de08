"""Questions to stored plans: memory, alternatives, explanations, comparisons."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.schema import Pipeline, Plan, Setup
from meshwright.schema.comparison import Comparison
from meshwright.schema.comparison_table import ComparisonTable
from meshwright.schema.explanation import Explanation
from meshwright_solver.simulation.step import step_of
from tests.service.conftest import Serve
from tests.service.shelved import store, store_for, store_plan
from tests.service.transport import client_of
from tests.solver.layered import layered
from tests.solver.small_graphs import topology, toy_calibration


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


def staged(service: TestClient, **more: Any) -> Plan:
    wishes: dict[str, Any] = {"pipeline": Pipeline(ranks=2), **more}
    return store_for(service, layered(4), topology(2, 2), Setup(microbatches=4), **wishes)


def got(service: TestClient, path: str, **given: Any) -> Any:
    answer = service.get(path, params=given)
    assert answer.status_code == 200, answer.text
    assert "no-cache" in answer.headers["cache-control"]
    again = service.get(path, params=given, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    return answer.json()


def test_parts_of_memory_add_up_and_leave_the_margin(service: TestClient) -> None:
    plan = store(service, [2, 4])
    made = got(service, f"/v1/plans/{plan.id}/memory")
    (stage,), (rank,) = made["stages"], made["ranks"]
    use = plan.cost.memory_bytes
    assert sum(stage["parts"].values()) == stage["total_bytes"] == use.total
    assert rank["total_bytes"] == use.total
    assert not rank["at_most"]
    assert rank["margin_bytes"] == use.capacity - use.total
    assert made["over_time"] == []


def test_ranks_of_a_pipeline_have_their_stages(service: TestClient) -> None:
    plan = staged(service)
    made = got(service, f"/v1/plans/{plan.id}/memory")
    assert [own["rank"] for own in made["stages"]] == [own.pipeline_rank for own in plan.stages]
    assert max(own["total_bytes"] for own in made["ranks"]) == plan.cost.memory_bytes.total
    assert {n for own in made["ranks"] for n in own["stages"]} == {*range(len(plan.stages))}


def test_memory_over_time_shows_the_fullest_moment(service: TestClient) -> None:
    graph, cluster, setup = layered(4), topology(2, 2), Setup(microbatches=4)
    plan = store_for(service, graph, cluster, setup)
    step = step_of(plan, graph, cluster, setup, toy_calibration())
    whole = step.curve(0)
    for points in (7, 4000):
        (curve,) = got(service, f"/v1/plans/{plan.id}/memory", points=points)["over_time"]
        assert len(curve["ns"]) == min(points, len(whole.ns))
        assert curve["ns"] == sorted(curve["ns"])
        pairs = zip(curve["saved_bytes"], curve["working_bytes"], strict=True)
        assert max(a + b for a, b in pairs) == pytest.approx(float(whole.total.max()), abs=2)
        assert curve["static_bytes"] == step.static_bytes(0)


def test_alternatives_are_points_with_a_reason(service: TestClient) -> None:
    plan = staged(service)
    other = staged(service, pipeline=Pipeline(ranks=1))
    elsewhere = store(service, [2, 4])
    found = got(service, f"/v1/plans/{plan.id}/alternatives")
    points = found["points"]
    (chosen,) = [own for own in points if own["kind"] == "chosen"]
    assert (chosen["plan"], chosen["step_ns"]) == (plan.id, plan.cost.step_ns)
    (stored,) = [own for own in points if own["kind"] == "stored"]
    assert stored["plan"] == other.id != elsewhere.id
    ratio = other.cost.step_ns / plan.cost.step_ns
    assert f"{ratio:.3f} times as long" in stored["why"]
    considered = [own for own in points if own["kind"] == "considered"]
    assert {own["name"] for own in considered} == {
        own.configuration for own in plan.search.considered
    }
    patches = {own.configuration: own.request_patch for own in plan.search.considered}
    assert {own["name"]: own["asks"] for own in considered} == patches
    assert all(own["why"] for own in points)
    known = [
        own
        for own in points
        if "step_ns" in own
        and own.get("memory_bytes", found["capacity_bytes"] + 1) <= found["capacity_bytes"]
    ]
    for own in known:
        undercut = any(
            (a["step_ns"], a["memory_bytes"]) != (own["step_ns"], own["memory_bytes"])
            and a["step_ns"] <= own["step_ns"]
            and a["memory_bytes"] <= own["memory_bytes"]
            for a in known
        )
        assert not (own["on_front"] and undercut)
        assert own["on_front"] or undercut or own["memory_bytes"] in [
            a["memory_bytes"] for a in known if a["on_front"]
        ]  # fmt: skip


def test_plans_of_earlier_versions_have_alternatives_that_nothing_asks_for(
    service: TestClient,
) -> None:
    plan = staged(service)
    value = plan.to_dict()
    for own in value["search"]["considered"]:
        del own["request_patch"]
    older = Plan.from_dict(value)
    store_plan(service, older)
    points = got(service, f"/v1/plans/{older.id}/alternatives")["points"]
    considered = [own for own in points if own["kind"] == "considered"]
    assert len(considered) == len(plan.search.considered)
    assert not any("asks" in own for own in considered)


def test_an_explanation_is_worked_out_and_remembered(
    service: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = store(service, [2, 4])
    path = f"/v1/plans/{plan.id}/explain"
    answer = service.get(path, params={"op": "layers.0.linear", "seconds": 30})
    assert answer.status_code == 200, answer.text
    made = Explanation.from_dict(answer.json())
    assert made.complete
    assert made.whole.objective_ns == pytest.approx(plan.cost.objective_ns)
    (group,) = made.groups
    assert {own.verdict for own in group.alternatives} <= {"chosen", "slower", "simpler"}
    # from now on nothing can be worked out any more
    monkeypatch.setattr("meshwright_service.plan_views.explanations.Child", lambda *_: 1 / 0)
    tag = {"If-None-Match": answer.headers["etag"]}
    assert service.get(path, params={"op": "layers.0.linear"}, headers=tag).status_code == 304


def test_explanations_say_what_is_wrong_with_the_question(service: TestClient) -> None:
    plan = store(service, [2, 4])
    path = f"/v1/plans/{plan.id}/explain"
    assert service.get(path).status_code == 422
    answer = service.get(path, params={"op": "nowhere"})
    assert answer.status_code == 422
    assert "matches no op of the plan" in answer.json()["detail"]
    assert service.get("/v1/plans/plan_0/explain", params={"op": "*"}).status_code == 404


def test_more_explanations_than_turns_are_told_to_ask_again(
    service: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = store(service, [2, 4])
    monkeypatch.setattr("meshwright_service.plan_views.explanations.TRIED_S", 0.01)
    turns = service.app.state.service.explanations._turns  # type: ignore[attr-defined]
    with turns, turns:
        answer = service.get(f"/v1/plans/{plan.id}/explain", params={"op": "*"})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0


def test_a_plan_beside_itself_differs_in_nothing(service: TestClient) -> None:
    plan = store(service, [2, 4])
    made = Comparison.from_dict(got(service, "/v1/comparisons", plan=[plan.id, plan.id]))
    assert made.differences == ()
    assert made.alike == len(plan.stages[0].ops)
    assert made.first == made.second


def test_two_plans_differ_where_they_do(service: TestClient) -> None:
    one, other = staged(service), staged(service, pipeline=Pipeline(ranks=1))
    made = Comparison.from_dict(got(service, "/v1/comparisons", plan=[one.id, other.id]))
    assert made.first.step_ns == one.cost.step_ns
    assert made.second.memory_total_bytes == other.cost.memory_bytes.total
    only = [own for own in made.differences if own.differing == ("only in one",)]
    assert only
    assert all(own.kind == "receive" and own.second is None for own in only)
    count = sum(own.count for own in made.differences) + made.alike
    named = {op.op for plan in (one, other) for stage in plan.stages for op in stage.ops}
    assert count == len(named)


@pytest.mark.parametrize("given", [[], ["plan_0"], ["plan_0"] * 3])
def test_a_comparison_is_of_two(service: TestClient, given: list[str]) -> None:
    assert service.get("/v1/comparisons", params={"plan": given}).status_code == 422


def test_several_plans_are_a_table(service: TestClient) -> None:
    wishes = (Pipeline(ranks=2), Pipeline(ranks=1), Pipeline(ranks=4))
    plans = [staged(service, pipeline=each) for each in wishes]
    ids = [plan.id for plan in plans]
    made = ComparisonTable.from_dict(
        got(service, "/v1/comparisons/table", plan=ids, baseline=ids[1])
    )
    assert [column.plan for column in made.plans] == ids
    assert made.baseline == 1
    step = next(row for row in made.figures if row.name == "step")
    assert step.values == tuple(plan.cost.step_ns for plan in plans)
    assert step.changes[1] == 0
    assert {row.name for row in made.requested} == {"pipeline ranks"}
    assert client_of(service).compare_table(ids, baseline=ids[1]) == made


@pytest.mark.parametrize(
    "given",
    [
        {"plan": ["plan_0"]},
        {"plan": [f"plan_{number}" for number in range(9)]},
        {"plan": ["plan_0", "plan_1"], "baseline": "plan_2"},
    ],
)
def test_a_table_is_of_two_to_eight_plans(service: TestClient, given: dict[str, Any]) -> None:
    assert service.get("/v1/comparisons/table", params=given).status_code == 422


def test_the_client_asks_all_of_it(service: TestClient) -> None:
    plan = staged(service)
    client = client_of(service)
    assert len(list(client.strategies(plan.id, op="*.linear"))) == 4
    assert client.memory(plan.id, points=5)["over_time"]
    assert client.alternatives(plan.id)[0]["why"]
    assert client.compare(plan.id, plan.id).differences == ()
    assert client.layout(plan.id, opened=["0"], search="logits")["found"]
    assert client.explain(plan.id, "logits", seconds=20).groups
    assert client.labels(plan.id, add=["prod"]) == ("prod",)
    assert [own["id"] for own in client.plans(label="pr*")] == [plan.id]
    assert client.labels(plan.id) == ("prod",)
