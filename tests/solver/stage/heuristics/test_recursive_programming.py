"""Recursive programming: every op gets a valid strategy, near the optimum, within the memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from meshwright.schema import Budget, Graph, Pin, Plan, Request, Setup
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.folding.fold import fold
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.stage.heuristics.local_models import LocalModels, Outer
from meshwright_solver.stage.heuristics.recursive_programming import recursive_programming
from meshwright_solver.strategies.mesh_models import Models
from tests.one_stage import one_stage_request
from tests.solver.requests import mlp_request
from tests.solver.small_graphs import topology

GRAPHS = Path(__file__).parents[4] / "examples" / "graphs"


def stored(name: str) -> Graph:
    return Graph.from_json(gzip.decompress((GRAPHS / f"{name}.json.gz").read_bytes()))


def models_of(graph: Graph, cluster: str, place: int = 0) -> Models:
    devices = preset(cluster)
    problem = build_problem(graph, devices, Setup(), datasheet_calibration(), 1)
    return Models(problem, find_values(problem), meshes(devices, 3)[place])


@pytest.mark.parametrize(
    ("name", "cluster"), [("bert-large", "h100-8x8"), ("wide-deep", "h100-3x4")]
)
def test_every_op_has_one_of_its_strategies(name: str, cluster: str) -> None:
    folding = fold(stored(name), {})
    models = models_of(folding.graph, cluster)
    (first, *_) = recursive_programming(models, folding, {}, 1e15)
    assert set(first) == set(range(len(models.problem.ops))) - models.values.views
    for position, row in first.items():
        model = models.ops.model(position)
        assert (model.choices == np.array(row)).all(axis=1).any(), models.problem.ops[position].name
        assert model.is_valid(row)


def test_is_valid_tells_the_choices_from_all_other_rows() -> None:
    models = models_of(stored("wide-deep"), "h100-3x4")
    for position in sorted(set(range(len(models.problem.ops))) - models.values.views):
        model = models.ops.model(position)
        known = {tuple(row) for row in model.choices.tolist()}
        codes = range(len(model.parts_of_code))
        open_codes = [c for c in codes if all(model.shardable[p] for p in model.parts_of_code[c])]
        rows = np.array(np.meshgrid(*[open_codes] * len(model.axis_sizes))).T.reshape(
            -1, len(model.axis_sizes)
        )
        assert {tuple(row) for row in rows.tolist() if model.is_valid(row)} == known


def test_folded_layers_that_stand_for_each_other_are_alike() -> None:
    folding = fold(stored("llama3-8b"), {})
    models = models_of(folding.graph, "h100-8x8")
    by_name = {op.name: position for position, op in enumerate(models.problem.ops)}
    (first, *_) = recursive_programming(models, folding, {}, 8e10)
    groups = [group for group in folding.alike if group[0][0] == "op"]
    assert groups
    for group in groups:
        positions = [by_name[name] for _, name in group]
        assert len({first[p] for p in positions if p in first}) <= 1


@pytest.mark.parametrize(
    ("name", "cluster", "most"),
    [
        ("llama3-8b", "h100-8x8", 1.02),
        ("bert-large", "h100-8x8", 1.01),
        ("resnet50", "h100-8x8", 1.05),
    ],
)
def test_plans_are_near_the_optimum(name: str, cluster: str, most: float) -> None:
    def cost(solver: str) -> float:
        request = one_stage_request(
            graph=stored(name),
            topology=preset(cluster),
            solver=solver,  # type: ignore[arg-type]
            budget=Budget(simplicity=0),
        )
        found = plan(request).plan
        assert found is not None
        assert found.search.lower_bound_ns <= found.search.cost_ns == found.cost.objective_ns
        return found.search.cost_ns

    assert cost("dynamic_programming") <= cost("recursive_programming") * (1 + 1e-3)
    assert cost("recursive_programming") <= most * cost("dynamic_programming")


def test_memory_is_respected_where_data_parallelism_alone_would_not_fit() -> None:
    request = mlp_request(8, topology(2, 4, bytes_per_s=1e12), rows=64, width=2048)
    request = request.model_copy(update={"calibration": datasheet_calibration()})
    roomy = plan(request.model_copy(update={"solver": "recursive_programming"})).plan
    assert roomy is not None
    tight = _with_memory(request, int(used(roomy)))
    found = plan(
        request.model_copy(update={"topology": tight, "solver": "recursive_programming"})
    ).plan
    assert found is not None
    assert found.microbatches == roomy.microbatches
    assert used(found) <= used(roomy) * 0.9


def used(found: Plan) -> int:
    return found.cost.memory_bytes.total - found.cost.memory_bytes.reserved


def _with_memory(request: Request, memory_bytes: int):
    device = request.topology.device.model_copy(update={"memory_bytes": memory_bytes})
    return request.topology.model_copy(update={"device": device})


def test_pins_are_kept_on_every_axis() -> None:
    pin = Pin(op="model.layers.*.mlp.down_proj", strategy={"k": ("gpu",), "b0": ("node",)})
    request = one_stage_request(
        graph=stored("llama3-8b"),
        topology=preset("h100-8x8"),
        pins=(pin,),
        solver="recursive_programming",
    )
    found = plan(request).plan
    assert found is not None
    mesh = found.stages[0].mesh
    gpus = {axis.name for axis in mesh.axes if axis.level == "gpu"}
    pinned = [op for op in found.stages[0].ops if op.op.endswith("mlp.down_proj")]
    assert len(pinned) == 32
    for op in pinned:
        split = {
            axis for part, axes in op.strategy.items() if part.startswith("k") for axis in axes
        }
        assert split == gpus


def test_inner_axes_see_what_outer_axes_left() -> None:
    folding = fold(stored("bert-large"), {})
    models = models_of(folding.graph, "h100-8x8")
    position = next(p for p, op in enumerate(models.problem.ops) if op.op.kind == "linear")
    whole = LocalModels(models, meshes(preset("h100-8x8"), 1)[0], Outer()).ops.model(position)
    cut = tuple(4 if part == 0 else 1 for part in range(whole.parts))
    local = LocalModels(models, meshes(preset("h100-8x8"), 1)[0], Outer(parts={position: cut}))
    model = local.ops.model(position)
    assert model.sizes[0] == -(-whole.sizes[0] // 4)
    assert model.flops == whole.flops / 4
    assert [port.bytes for port in model.inputs if any(p == 0 for p, _ in port.slot_of)] == [
        port.bytes // 4 for port in whole.inputs if any(p == 0 for p, _ in port.slot_of)
    ]
