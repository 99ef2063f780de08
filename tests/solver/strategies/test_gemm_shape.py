"""Local shapes of products and attention, by hand and against the sizes that devices have."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Calibration, Graph, Setup
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.curves import Shape, rates_of
from meshwright_costmodel.operators import op_ns
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import ATTENTION_BACKWARD
from tests.costmodel.round_curves import round_curves
from tests.solver.small_graphs import topology

CURVED: Calibration = datasheet_calibration().model_copy(update={"curves": (round_curves(),)})
CLUSTER = topology(4)


def graph_of(op: dict, shapes: dict[str, list[int]], output: str) -> Graph:
    roles = {"w": "parameter"}
    tensors = [
        {"name": name, "shape": shape, "dtype": "bfloat16"}
        | ({} if name == output else {"role": roles.get(name, "input")})
        for name, shape in shapes.items()
    ]
    return Graph.from_dict({"tensors": tensors, "ops": [op], "outputs": [output]})


def model_of(graph: Graph, calibration: Calibration = CURVED):
    problem = build_problem(graph, CLUSTER, Setup(), calibration)
    mesh = next(own for own in meshes(CLUSTER, 1) if own.device_count == 4)
    models = Models(problem, find_values(problem), mesh)
    return models, models.ops.model(0)


def linear() -> Graph:
    op = {"name": "up", "kind": "linear", "inputs": ["x", "w"], "outputs": ["y"]}
    return graph_of(op, {"x": [64, 128], "w": [512, 128], "y": [64, 512]}, "y")


def test_a_linear_has_rows_columns_and_depth():
    _, model = model_of(linear())
    assert model.shape is not None
    assert model.shape.whole == (1, 64, 512, 128)


def test_every_strategy_is_stretched_by_its_own_sizes():
    models, model = model_of(linear())
    device = CLUSTER.device
    forward, inputs, weights = models.passes_ns(model, model.choices)
    rates = rates_of(CURVED, device)
    names = ["rows", "columns", "depth"]
    parts = {name: getattr(model.shape, name) for name in names}
    assert len(model.choices) >= 4
    for place, codes in enumerate(model.choices):
        sizes = {"rows": 64.0, "columns": 512.0, "depth": 128.0}
        for code in codes:
            for name in names:
                if code in parts[name]:
                    sizes[name] /= 4
        own = Shape(1.0, sizes["rows"], sizes["columns"], sizes["depth"])
        m, n, k = own.rows, own.columns, own.depth
        flops = 2 * m * n * k
        moved = 2 * (m * k + k * n + m * n)
        common = {"dtype": "bfloat16", "device": device, "calibration": CURVED}
        stretch = rates.stretch("matmul", own, "bfloat16")
        forth = op_ns("matmul", flops * stretch, bytes_moved=moved, **common)
        assert forward[place] == pytest.approx(forth)
        # x is an input of the graph: only the weights' gradient is made
        back = op_ns(
            "matmul", flops * rates.stretch("matmul", own.of_right, "bfloat16"),
            bytes_moved=2 * (m * k + k * n + m * n), **common,
        )  # fmt: skip
        assert inputs[place] + weights[place] == pytest.approx(back)


def test_grouped_products_share_their_rows_out():
    op = {"name": "experts", "kind": "grouped_matmul", "inputs": ["x", "w", "g"], "outputs": ["y"]}
    shapes = {"x": [64, 32], "w": [8, 32, 16], "g": [8], "y": [64, 16]}
    _, model = model_of(graph_of(op, shapes, "y"))
    assert model.shape is not None
    local = model.shape.local(lambda _: np.ones(1), 1.0)
    assert (local.groups, local.rows, local.columns, local.depth) == (8, 8, 16, 32)


def test_attention_has_heads_rows_and_a_head_dimension_and_a_slower_backward_pass():
    op = {"name": "core", "kind": "attention", "inputs": ["q", "w", "v"], "outputs": ["y"]}
    shapes = {name: [2, 4, 64, 32] for name in ("q", "w", "v", "y")}
    models, model = model_of(graph_of(op, shapes, "y"))
    assert model.shape is not None
    assert model.shape.whole == (8, 64, 64, 32)
    alone = np.full((1, len(model.axis_sizes)), model.idle)
    forward, inputs, weights = models.passes_ns(model, alone)
    launch = CURVED.launch_ns
    busy = float(forward[0]) - launch
    back = float(inputs[0] + weights[0]) - launch
    assert back == pytest.approx(busy * ATTENTION_BACKWARD / 0.5)


def test_flat_shares_ask_for_no_shapes():
    _, model = model_of(linear(), datasheet_calibration())
    assert model.shape is None
