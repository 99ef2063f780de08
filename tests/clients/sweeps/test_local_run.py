"""A sweep in local processes: the planner's own answers, lost processes, early ends, known rows."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from meshwright.plugins.planner import find_planner, planner_build
from meshwright.reports.plan_figures import figures_of
from meshwright.schema import Answer, Graph, Plan, Request, RequestError, Topology, TopologyError
from meshwright.schema.sweep import Sweep, SweepPoint, SweepRow
from meshwright.sweeps import points_of, request_of, run_sweep
from meshwright.sweeps.local_run import resolved
from tests.service.samples import GRAPH, TOPOLOGY

DEADLY = "tests.clients.sweeps.test_local_run:deadly"
FAULTY = 40  # the global batch of the point with which the planner has a bug
VICTIM = 24  # the global batch of the point whose process dies
SWEEP = Sweep(topologies=("h100-1x{2,4,8}",), batches=(8, 16), prices={"h100": 2.0}, tokens=10**9)


def deadly(request: Request) -> Answer:
    """Plans, but ends its process for the batch of the victim.

    Adds a line for each call to the file that the name of the graph names.
    """
    with Path(request.graph.name).open("a") as file:
        print(request.setup.global_batch, file=file)
    if request.setup.global_batch == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    if request.setup.global_batch == FAULTY:
        raise ZeroDivisionError("a bug")
    return find_planner()(request)


@pytest.fixture
def graph() -> Graph:
    return Graph.from_dict(GRAPH)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_the_answers_of_the_planner_in_the_order_of_points(
    graph: Graph, workers: int
) -> None:
    seen: dict[int, SweepRow] = {}
    result = run_sweep(SWEEP, graph, workers=workers, on_row=seen.__setitem__)
    assert sorted(seen) == list(range(6))
    assert (result.graph, result.planner_build) == (graph.id, planner_build())
    for point, row in zip(points_of(SWEEP), result.rows, strict=True):
        request = request_of(SWEEP, point, graph, resolved(SWEEP))
        plan = find_planner()(request).plan
        assert plan is not None
        assert row.point == point
        assert row.figures == figures_of(plan, request)
        assert row.figures.batch == point.batch
    assert any(row.on_front for row in result.rows)
    assert all(row.run_price is not None for row in result.rows)


def test_plans_are_handed_over_where_they_are_wanted(graph: Graph) -> None:
    plans: dict[SweepPoint, Plan] = {}
    result = run_sweep(SWEEP, graph, workers=2, on_plan=plans.__setitem__)
    found = {row.point: row.figures.plan for row in result.rows if row.figures is not None}
    assert {point: plan.id for point, plan in plans.items()} == found


def test_invalid_points_are_refused_and_the_others_planned(graph: Graph) -> None:
    axes = {"topologies": ["h100-1x2"], "module": "layers.0"}
    sweep = Sweep.from_dict({**axes, "targets": [None, "fsdp2"]})
    first, second = run_sweep(sweep, graph, workers=1).rows
    assert first.state == "planned"
    assert second.state == "refused"  # a target decides on all ops
    assert "fsdp2" in second.reason
    with pytest.raises(RequestError, match="no point of the sweep is valid"):
        run_sweep(Sweep.from_dict({**axes, "targets": ["fsdp2"]}), graph, workers=1)


def test_points_that_do_not_fit_say_why(graph: Graph) -> None:
    device = {**TOPOLOGY["device"], "memory_bytes": 10}
    small = Topology.from_dict({**TOPOLOGY, "name": "small", "device": device})
    rows = run_sweep(Sweep(topologies=("h100-1x1", small)), graph, workers=1).rows
    assert [row.state for row in rows] == ["planned", "infeasible"]
    assert rows[1].reason


def test_known_rows_are_not_planned_again(graph: Graph, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    graph = graph.model_copy(update={"name": str(calls)})
    first = run_sweep(SWEEP, graph, workers=1, planner=DEADLY)
    assert len(calls.read_text().splitlines()) == 6
    known = {row.point: row for row in first.rows[1:]}
    assert run_sweep(SWEEP, graph, workers=1, planner=DEADLY, known=known) == first
    assert len(calls.read_text().splitlines()) == 7


def test_a_process_that_dies_loses_its_own_point_alone(graph: Graph, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    graph = graph.model_copy(update={"name": str(calls)})
    batches = (8, VICTIM, 16, 32, 48, 64, 80, 96)
    result = run_sweep(
        Sweep(topologies=("h100-1x2",), batches=batches), graph, workers=2, planner=DEADLY
    )
    states = {row.point.batch: row.state for row in result.rows}
    assert states.pop(VICTIM) == "failed"
    assert set(states.values()) == {"planned"}
    assert "killed" in result.rows[1].reason
    numbers = [int(line) for line in calls.read_text().splitlines()]
    assert numbers.count(VICTIM) == 3
    assert max(numbers.count(batch) for batch in batches if batch != VICTIM) <= 2


def test_a_bug_of_the_planner_fails_one_point_alone(graph: Graph, tmp_path: Path) -> None:
    graph = graph.model_copy(update={"name": str(tmp_path / "calls")})
    sweep = Sweep(topologies=("h100-1x2",), batches=(8, FAULTY, 16))
    rows = run_sweep(sweep, graph, workers=1, planner=DEADLY).rows
    assert [row.state for row in rows] == ["planned", "failed", "planned"]
    assert rows[1].reason == "ZeroDivisionError: a bug"


def test_a_stop_ends_the_searches_that_run(graph: Graph) -> None:
    started, others = time.monotonic(), set(active_children())
    result = run_sweep(
        SWEEP,
        graph,
        workers=2,
        planner="tests.service.planners:endless",
        stop=lambda: time.monotonic() > started + 2,
    )
    assert {row.state for row in result.rows} == {"cancelled"}
    assert not set(active_children()) - others


def test_a_stop_leaves_the_rest_cancelled(graph: Graph) -> None:
    seen: list[int] = []
    result = run_sweep(
        SWEEP,
        graph,
        workers=1,
        stop=lambda: len(seen) >= 2,
        on_row=lambda place, _: seen.append(place),
    )
    assert [row.state for row in result.rows] == ["planned"] * 2 + ["cancelled"] * 4
    assert result.done == 6


def test_a_topology_that_does_not_exist_is_refused_before_any_search(graph: Graph) -> None:
    with pytest.raises(TopologyError, match="h101"):
        run_sweep(Sweep(topologies=("h100-1x2", "h101-1x2")), graph)
