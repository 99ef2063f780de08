"""Requests for tests, and what the planner answers."""

from __future__ import annotations

from typing import Any

from meshwright.schema import Answer, Graph, Infeasible, Plan, Request, Setup, Topology
from meshwright_costmodel.calibrations import default_calibration
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.stage.best_so_far import Make
from tests.one_stage import one_stage_request
from tests.solver.small_graphs import GraphMaker, toy_calibration

ONE_BATCH = Setup(microbatches=1)


def toy_request(graph: Graph, topology: Topology, **wishes: Any) -> Request:
    """A request for toy devices, which have a calibration of their own."""
    return one_stage_request(
        graph=graph, topology=topology, **{"calibration": toy_calibration(), **wishes}
    )


def planned(request: Request) -> Plan:
    answer = plan(request)
    assert answer.infeasible is None
    assert answer.plan is not None
    return answer.plan


def offered(request: Request) -> tuple[Answer, list[Plan]]:
    """What the planner answers, and all plans that its search offers before, in order."""
    plans: list[Plan] = []

    def keep(make: Make) -> None:
        answer = make()
        if answer is not None and answer.plan is not None:
            plans.append(answer.plan)

    return plan(request, keep=keep), plans


def refused(request: Request) -> Infeasible:
    answer = plan(request)
    assert answer.plan is None
    assert answer.infeasible is not None
    return answer.infeasible


def problem_of(request: Request, **more: Any) -> Problem:
    """The problem that the planner solves for this request, to judge its plans by."""
    calibration = request.calibration or default_calibration()
    return build_problem(request.graph, request.topology, request.setup, calibration, **more)


def transformer_mlp(batch: int, *, rows: int = 64, width: int = 2048) -> GraphMaker:
    """An embedding, a normalised MLP on a residual stream, a classifier."""
    maker = GraphMaker("bfloat16", batch=batch)
    shape = ["batch", rows, width]
    wide = ["batch", rows, 4 * width]
    ids = maker.input("ids", "batch", rows, dtype="int64")
    x = maker.op("embedding", [maker.parameter("words", 1024, width), ids], shape, "embed")
    normal = maker.op("rms_norm", [x, maker.parameter("scale", width)], shape, "norm")
    up = maker.op("linear", [normal, maker.parameter("w up", 4 * width, width)], wide, "up")
    act = maker.op("gelu", [up], wide, "act")
    down = maker.op("linear", [act, maker.parameter("w down", width, 4 * width)], shape, "down")
    x = maker.op("add", [x, down], shape, "residual")
    head = maker.parameter("w head", 1024, width)
    logits = maker.op("linear", [x, head], ["batch", rows, 1024], "head")
    label = maker.tensor("label", ["batch", rows], "label", dtype="int64")
    maker.op("cross_entropy", [logits, label], [], "loss")
    return maker


def mlp_request(batch: int, devices: Topology, **sizes: int) -> Request:
    graph = transformer_mlp(batch, **sizes).graph("loss:out", loss="loss:out")
    return toy_request(graph=graph, topology=devices, setup=ONE_BATCH)
