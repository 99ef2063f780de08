"""The benchmark graphs are MindSpore's networks, op for op, and fold."""

from __future__ import annotations

import pytest

from bench.mindspore_models import MODELS, gpt
from meshwright.schema import Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.folding.fold import fold
from meshwright_solver.problem.problem import build_problem

# what MindSpore gives no strategy: views, and casts, which it takes with their readers
WITHOUT_STRATEGY = {"Reshape", "Cast"}


@pytest.mark.parametrize("layers", [1, 4])
def test_a_gpt_has_as_many_operators_as_mindspore_counts(layers: int) -> None:
    twin = gpt(layers=layers)
    counted = [own for own in twin.operators.values() if own not in WITHOUT_STRATEGY]
    assert len(counted) == 26 * layers + 6  # 32 and 110 in its own answers
    assert set(twin.operators) == {op.name for op in twin.graph.ops}


def test_parameters_and_products_are_those_of_the_closed_forms() -> None:
    hidden, rows, sequence = 256, 4 * 64, 64
    twin = gpt(layers=2, hidden=hidden, heads=4, batch=4, sequence=sequence, vocab=512)
    shapes = twin.graph.instantiate({})
    weights = [t.name for t in twin.graph.tensors if t.role == "parameter"]
    elements = sum(int(shapes[name][0]) * (shapes[name] + (1,))[1] for name in weights)
    block = 12 * hidden**2 + 9 * hidden + 4 * hidden  # matrices, biases, two norms
    assert elements == 2 * block + 2 * 512 * hidden + 2 * hidden
    problem = build_problem(twin.graph, preset("910b-1x8"), Setup(), default_calibration())
    products = sum(op.flops for op in problem.ops if op.op.kind == "matmul")
    attention = 2 * (2 * rows * sequence * hidden)
    assert products == 2 * (2 * rows * 12 * hidden**2 + attention) + 2 * rows * hidden * 512


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_is_known(name: str) -> None:
    twin = MODELS[name]()
    problem = build_problem(twin.graph, preset("910b-1x8"), Setup(), default_calibration())
    assert [op.name for op in problem.ops if op.known is None] == []


def test_layers_fold() -> None:
    twin = gpt(layers=12)
    ((run,),) = fold(twin.graph, {}).levels
    assert run.copies == 12
