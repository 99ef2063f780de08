"""Op models that ops of equal content share are the ones that each would have by itself."""

from __future__ import annotations

import pytest

from bench.planning import GRAPHS
from bench.series_parallel import series_parallel
from meshwright.common.files import read_document
from meshwright.schema import Graph, Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models

CLUSTER = preset("h100-2x8")


def examples() -> list[Graph]:
    names = ("mixtral-8x7b", "unet3d", "wide-deep")
    return [
        series_parallel(60, seed=5),
        *(read_document(GRAPHS / f"{name}.json.gz", Graph) for name in names),
    ]


def fresh(problem: Problem) -> Models:
    return Models(problem, find_values(problem), meshes(CLUSTER, 2)[0])


@pytest.mark.parametrize("graph", examples(), ids=lambda graph: graph.name)
@pytest.mark.parametrize("setup", [Setup(), Setup(uneven="chunk")], ids=["even", "uneven"])
def test_a_shared_model_is_the_ops_own(graph, setup):
    problem = build_problem(graph, CLUSTER, setup, default_calibration())
    together = fresh(problem)
    positions = range(0, len(problem.ops), max(1, len(problem.ops) // 50))
    for position in reversed(range(len(problem.ops))):  # whoever comes first makes it
        together.ops.model(position)
    for position in positions:
        alone = Models(problem, together.values, together.mesh)
        assert alone.ops.model(position) == together.ops.model(position)
        for port in problem.ops[position].outputs:
            root = together.values.value_of[port.tensor].root
            assert alone.ops.space(root) == together.ops.space(root)


def test_ops_of_repeated_layers_share_one_model():
    graph = read_document(GRAPHS / "llama3-8b.json.gz", Graph)
    problem = build_problem(graph, CLUSTER, Setup(), default_calibration())
    found = fresh(problem)
    different = {id(found.ops.model(position)) for position in range(len(problem.ops))}
    assert len(problem.ops) > 700
    assert len(different) < 60
