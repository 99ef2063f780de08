"""A plan is found exactly where one of all assignments fits, whether costs tell them apart or not:
of so small graphs all is start-up time under published curves."""

from __future__ import annotations

import pytest

from meshwright.schema import Budget, Calibration, Graph, PlanError, Request, Setup
from meshwright_costmodel.calibrations import datasheet_calibration, published_calibration
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.evaluation.evaluate import cost_of_all
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.planning.test_enumeration import all_assignments
from tests.solver.requests import problem_of, refused, toy_request
from tests.solver.small_graphs import GraphMaker, topology


def linears(count: int, width: int, batch: int) -> Graph:
    maker = GraphMaker(batch=batch)
    x, wide = maker.input("x", "batch", width), 2 * width
    for k in range(count):
        before, after = (wide, width) if k % 2 else (width, wide)
        x = maker.op(
            "linear", [x, maker.parameter(f"{k}.w", after, before)], ["batch", after], str(k)
        )
    return maker.graph(x)


def fitting_bytes(request: Request) -> list[int]:
    """What each of all assignments takes."""
    built = problem_of(request)
    found = set()
    for mesh in meshes(request.topology, 1):
        models = Models(built, find_values(built), mesh)
        for assignment in all_assignments(models):
            try:
                found.add(cost_of_all(models, assignment).memory_bytes.total)
            except PlanError:  # layouts that do not meet
                continue
    return sorted(found)


@pytest.mark.rotating
@pytest.mark.parametrize("calibration", [datasheet_calibration(), published_calibration()])
@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize(
    ("count", "width", "batch", "devices"),
    [
        (1, 16, 4, 2),  # weights pass by
        (1, 4, 64, 2),  # what is made passes by
        (1, 32, 32, 4),
        (2, 16, 4, 2),
        (2, 4, 64, 2),
    ],
)
def test_a_plan_is_found_exactly_where_one_fits(
    count: int,
    width: int,
    batch: int,
    devices: int,
    microbatches: int,
    calibration: Calibration,
) -> None:
    def request(memory_bytes: int) -> Request:
        return toy_request(
            graph=linears(count, width, batch),
            topology=topology(devices, memory_bytes=memory_bytes),
            setup=Setup(microbatches=microbatches, memory_reserve=0.0),
            budget=Budget(max_axes=1),
            calibration=calibration,
        )

    memories = fitting_bytes(request(1 << 40))
    assert refused(request(memories[0] - 1)).constraint == "memory"
    for limit in memories:
        found = plan(request(limit)).plan
        assert found is not None, limit
        assert found.cost.memory_bytes.total <= limit
