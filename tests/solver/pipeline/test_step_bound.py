"""The bound on all configurations: against every plan of small cases, and worked by hand."""

from __future__ import annotations

from itertools import combinations

import pytest

from meshwright.schedules.kinds import schedule
from meshwright.schema import Calibration, Pipeline, Request, Setup, Topology
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.graph_work import GraphWork
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_plans import StagePlans, StageWishes, plan_stages
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.pipeline.step_bound import least_step_ns
from tests.costmodel.round_curves import round_curves
from tests.solver.layered import layered
from tests.solver.mixed import beside, kind
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology, toy_calibration

# the first: arithmetic is nearly all there is; the second: launches are
CASES = [
    topology(4, flops_per_s=1e9, bytes_per_s=1e12, latency_ns=0),
    topology(2, 2, flops_per_s=1e15, bytes_per_s=1e12, latency_ns=0),
    topology(4, flops_per_s=3e10, latency_ns=200),
]


CURVED: Calibration = toy_calibration().model_copy(update={"curves": (round_curves(),)})


def bound_of(request: Request, own: Configuration) -> float:
    calibration = request.calibration
    assert isinstance(calibration, Calibration)
    found = least_step_ns(request, GraphWork(request, Anatomy(request.graph), calibration), [own])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("devices", "microbatches", "calibration"),
    [
        (CASES[0], 4, toy_calibration()),
        (CASES[1], 2, toy_calibration()),
        (CASES[2], 2, toy_calibration()),
        (CASES[0], 2, CURVED),
    ],
)
def test_no_configuration_with_any_cuts_is_below_its_bound(
    devices: Topology, microbatches: int, calibration: Calibration
) -> None:
    graph = layered(1)
    anatomy = Anatomy(graph)
    request = toy_request(
        graph=graph, topology=devices, setup=Setup(microbatches=microbatches),
        pipeline=Pipeline(ranks=None), calibration=calibration,
    )  # fmt: skip
    every = {}
    for own in configurations(request, anatomy):
        if own.ranks * own.stages_per_rank <= 4:
            stages = own.ranks * own.stages_per_rank
            for cuts in list(combinations(range(1, len(anatomy.order)), stages - 1))[::2]:
                order = schedule(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)
                staged = Staged(anatomy, devices, request.setup, calibration, order, cuts)
                wishes = StageWishes.of((1 / own.stages_per_rank,) * stages, order)
                found = plan_stages(request, own, staged, wishes, Deadline.after(None), 1e-3)
                if isinstance(found, StagePlans):
                    every.setdefault(own, []).append(found.ns)
    assert len(every) > 3
    for own, steps in every.items():
        assert bound_of(request, own) <= min(steps) * (1 + 1e-9), own


@pytest.mark.parametrize(
    "devices", [*CASES, beside(kind("slow", 2), kind("fast", 2, flops_per_s=1e13))]
)
def test_a_plan_says_it_and_is_not_below_it(devices: Topology) -> None:
    request = toy_request(
        graph=layered(4), topology=devices, setup=Setup(), pipeline=Pipeline(ranks=None)
    )
    plan = planned(request)
    assert plan.search.step_bound_ns is not None
    assert 0 < plan.search.step_bound_ns <= plan.cost.step_ns


def test_where_arithmetic_is_all_the_bound_is_its_share_and_the_bubble() -> None:
    """Of equal stages 1f1b takes m + p - 1 stages' time; whatever the cuts, no less than
    w / (1 - (1 - 1/m)^p): 2 ranks and 2 microbatches: 4/3 of w, which is half of the work on two
    devices."""
    devices = CASES[0]
    request = toy_request(
        graph=layered(2), topology=devices, setup=Setup(microbatches=2), pipeline=Pipeline(ranks=2),
        calibration=toy_calibration(),
    )  # fmt: skip
    found = {
        own.schedule: bound_of(request, own)
        for own in configurations(request, Anatomy(request.graph))
    }
    assert found["1f1b"] == pytest.approx(4 / 3 * found["zb_h1"], rel=1e-9)
