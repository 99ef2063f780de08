"""A small model with strategies written by hand, for the tests of MindSpore's strategies."""

from __future__ import annotations

from bench.mindspore_models import mlp
from bench.mindspore_strategies import Recorded
from meshwright.schema import Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.problem.problem import Problem, build_problem

OPTIONS = {"hidden": 64, "batch": 64, "classes": 32}

LAYERS = ("fc1", "fc2", "fc3")
DATA_PARALLEL = {
    **{f"{layer}.matmul": "(8,1) (1,1)" for layer in LAYERS},
    **{f"{layer}.add": "(8,1) (1)" for layer in LAYERS},
    "act": "(8,1)",
    "act2": "(8,1)",
    "loss.one_hot": "(8,1) () ()",
    "loss.ce": "(8,1) (8,1)",
    "loss.mean": "(8)",
}
HALVES = {  # two groups of four that repeat each other's work
    **DATA_PARALLEL,
    "fc1.matmul": "(1,1) (1,2)",
    "fc1.add": "(1,2) (2)",
    "act": "(1,2)",
    "fc2.matmul": "(1,2) (2,1)",
}


def case_of(strategies: dict[str, str]) -> Recorded:
    return Recorded("mlp", OPTIONS, 8, strategies, ("by hand",))


def small_problem() -> Problem:
    graph = mlp(**OPTIONS).graph
    return build_problem(graph, preset("910b-1x8"), Setup(), default_calibration())
