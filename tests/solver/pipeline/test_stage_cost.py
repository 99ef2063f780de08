"""A stage's cost from its layouts, and from what a plan of our own says."""

from __future__ import annotations

from costmodel.calibrations import default_calibration
from meshwright.schema import Request, Setup
from solver.pipeline.stage_cost import stage_cost, stage_cost_as_said
from solver.problem import build_problem
from tests.solver.pipeline.layered import layered
from tests.solver.requests import planned
from tests.solver.small_graphs import topology


def test_what_a_plan_says_is_what_its_layouts_cost() -> None:
    graph, devices, setup = layered(), topology(4, 2), Setup(microbatches=4)
    plan = planned(Request(graph=graph, topology=devices, setup=setup))
    problem = build_problem(graph, devices, setup, default_calibration(), 4)
    stage = plan.stages[0]
    assert stage_cost_as_said(problem, stage, plan.cost) == stage_cost(problem, stage)
