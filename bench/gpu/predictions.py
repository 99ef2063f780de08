"""Predictions of the planner for the cases: step time, time by kind of work, and memory."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from bench.gpu.cases import Case
from bench.gpu.models import MODELS
from meshwright.planfile import PlanFile
from meshwright.schema import Degrees, Graph, Plan, Recompute, Request
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

PRODUCTS = ("linear", "matmul", "expert_matmul", "conv")
Prediction = dict[str, float]


@cache
def graph_of(model_name: str, precision: str) -> Graph:
    """The captured graph of a model; the setup of a case replaces its batch."""
    return MODELS[model_name].graph(1, precision)


def plan_of(case: Case, device: str) -> PlanFile:
    """The plan that `meshwright estimate` makes for a case on one device of a preset."""
    graph = graph_of(case.model_name, case.precision)
    topology = preset(f"{device}-1x1")
    answer = plan(
        Request(
            graph=graph,
            topology=topology,
            setup=case.setup,
            degrees=Degrees(),
            recompute=Recompute(policy=case.recompute),
        )
    )
    assert answer.plan is not None
    return PlanFile(plan=answer.plan, graph=graph, topology=topology, setup=case.setup)


def prediction_of(made: Plan) -> Prediction:
    """Numbers of a plan, in the columns of `predictions.csv`: nanoseconds and bytes."""
    memory = made.cost.memory_bytes
    return {
        "step_ns": round(made.cost.step_ns),
        **_ns_by_work(made),
        "parameters_bytes": memory.parameters,
        "gradients_bytes": memory.gradients,
        "optimizer_bytes": memory.optimizer,
        "saved_bytes": memory.activations,
        "passing_bytes": memory.passing,
        "peak_bytes": memory.total - memory.reserved,
    }


def _ns_by_work(made: Plan) -> Prediction:
    """The time of products, of attention and of all other ops; the rest is the update."""
    by_work: defaultdict[str, float] = defaultdict(float)
    for stage in made.stages:
        for op in stage.ops:
            work = "attention" if op.kind == "attention" else "other"
            by_work["products" if op.kind in PRODUCTS else work] += op.compute_ns
    times = {f"{work}_ns": round(by_work[work]) for work in WORK}
    return times | {"update_ns": round(made.cost.compute_ns - sum(times.values()))}


WORK = ("products", "attention", "other")
