"""Whole plans for every target, and the command that writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshwright.convert import (
    TARGETS,
    DeviceGrid,
    Export,
    Target,
    export_plan,
    from_dtensor,
    from_jax,
    from_mindspore,
    normal,
)
from meshwright.planfile import read_plan
from meshwright.schema import (
    Axis,
    Graph,
    LayoutPair,
    OpPlan,
    ParameterPlan,
    Plan,
    PlanError,
    TensorPlan,
)
from meshwright.schema.layout import Dim, Layout, SubDim
from tests.clients.conftest import Run

BACK: dict[Target, Callable[..., Layout]] = {
    "dtensor": from_dtensor,
    "jax": from_jax,
    "mindspore": from_mindspore,
}


@pytest.fixture
def plan_file(run: Run, graph_file: Path, tmp_path: Path) -> Path:
    """Two layers on 2 x 4: columns of the first and rows of the second over gpu."""
    path = tmp_path / "plan.json"
    ran = run(
        "plan", graph_file, "--topology", "h100-2x4", "-o", path,
        "--pin", "layers.0.linear:n=gpu", "--pin", "layers.1.linear:k=gpu",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    return path


def layouts_of(plan: Plan) -> dict[tuple[str, str], Layout | None]:
    (stage,) = plan.stages
    found: dict[tuple[str, str], Layout | None] = {}
    for tensor in stage.tensors:
        found[tensor.tensor, "value"] = tensor.rest.value
        found[tensor.tensor, "gradient"] = tensor.rest.gradient
        if tensor.read is not None:
            found[tensor.tensor, "read"] = tensor.read.value
            found[tensor.tensor, "read_gradient"] = tensor.read.gradient
    for parameter in stage.parameters:
        found[parameter.tensor, "value"] = parameter.value
        found[parameter.tensor, "gradient"] = parameter.gradient
        found[parameter.tensor, "optimizer"] = parameter.optimizer
    return {key: layout for key, layout in found.items() if layout is not None}


@pytest.mark.parametrize("target", TARGETS)
def test_every_layout_of_a_plan_is_written_or_refused(plan_file: Path, target: Target) -> None:
    file = read_plan(plan_file)
    exported = export_plan(file.plan, target, graph=file.graph)
    (stage,) = exported.stages
    wanted = layouts_of(file.plan)
    written = {(name, role) for name, by_role in stage.layouts.items() for role in by_role}
    refused = {(r.name, r.role) for r in exported.refused if r.role != "strategy"}
    assert written | refused == set(wanted)
    assert not written & refused
    assert ("w.0", "value") in written
    for name, role in written:
        layout = wanted[name, role]
        assert layout is not None
        back = BACK[target](stage.layouts[name][role], stage.mesh)  # type: ignore[index]
        assert back == normal(layout, stage.mesh)
    assert Export.model_validate_json(exported.model_dump_json()) == exported


def test_strategies_are_written_for_every_op(plan_file: Path) -> None:
    file = read_plan(plan_file)
    (stage,) = export_plan(file.plan, "mindspore", graph=file.graph).stages
    first, second = stage.strategies["layers.0.linear"], stage.strategies["layers.1.linear"]
    assert first.cuts[1] == (1, 4)
    assert (second.cuts[0][-1], second.cuts[1]) == (4, (4, 1))
    fast = tuple(str(axis) for axis in stage.mesh.names if axis.startswith("gpu"))
    assert first.layouts[1] == ("None", fast[0] if len(fast) == 1 else fast)


def test_everything_that_cannot_be_said_is_listed_with_its_reason(plan_file: Path) -> None:
    plan = read_plan(plan_file).plan
    fastest = plan.stages[0].mesh.names[-1]
    inside = Layout(dims=(Dim(parts=(SubDim(size=3), SubDim(size=8, axes=(fastest,)))),))
    largest = Layout(dims=(), partial={fastest: "max"})
    stage = plan.stages[0].model_copy(
        update={
            "tensors": (TensorPlan(tensor="y", rest=LayoutPair(value=largest), read=None),),
            "parameters": (
                ParameterPlan(
                    tensor="w", value=inside, gradient=inside, optimizer=None, value_bytes=0,
                    gradient_bytes=0, optimizer_bytes=0,
                ),
            ),
            "ops": (OpPlan(op="odd", kind="odd", rule=None),),
        }
    )  # fmt: skip
    changed = plan.model_copy(update={"stages": (stage,)})
    wrong = {
        target: [(r.name, r.role) for r in export_plan(changed, target).refused]
        for target in TARGETS
    }
    assert wrong == {
        "dtensor": [],
        "jax": [("w", "value"), ("w", "gradient"), ("y", "value")],
        "mindspore": [("w", "value"), ("w", "gradient"), ("y", "value"), ("odd", "strategy")],
    }
    reasons = [r.reason for r in export_plan(changed, "mindspore").refused]
    for reason, name in zip(
        reasons, ("'w' (value)", "'w' (gradient)", "'y'", "'odd'"), strict=True
    ):
        assert name in reason


def test_ranks_of_a_later_stage_begin_where_its_mesh_does(plan_file: Path) -> None:
    plan = read_plan(plan_file).plan
    second = plan.stages[0].model_copy(update={"ranks_from": 8})
    exported = export_plan(plan.model_copy(update={"stages": (*plan.stages, second)}), "jax")
    assert [stage.mesh.ranks for stage in exported.stages] == [tuple(range(8)), tuple(range(8, 16))]


def test_a_layout_that_does_not_fit_the_mesh_damages_the_plan(plan_file: Path) -> None:
    plan = read_plan(plan_file).plan
    stray = Layout(dims=(Dim(parts=(SubDim(size=8, axes=(Axis("tp"),)),)),))
    tensor = TensorPlan(tensor="y", rest=LayoutPair(value=stray))
    stage = plan.stages[0].model_copy(update={"tensors": (tensor,)})
    with pytest.raises(PlanError, match=r"tensor 'y': layout \[8@tp\]: there is no axis 'tp'"):
        export_plan(plan.model_copy(update={"stages": (stage,)}), "jax")


def test_another_graph_is_refused(plan_file: Path) -> None:
    file = read_plan(plan_file)
    assert file.graph is not None
    other = Graph.from_dict({**file.graph.to_dict(), "name": "other"})
    with pytest.raises(PlanError, match="was made for the graph"):
        export_plan(file.plan, "mindspore", graph=other)


@pytest.mark.parametrize("target", TARGETS)
def test_export_writes_json_and_says_what_is_missing(
    run: Run, plan_file: Path, tmp_path: Path, target: Target
) -> None:
    whole = run("export", plan_file, "--to", target)
    assert (whole.code, bool(whole.out)) == ((2, False) if "not in" in whole.err else (0, True))
    ran = run("export", plan_file, "--to", target, "--partial")
    assert ran.code == 0, ran.err
    exported = Export.model_validate_json(ran.out)
    assert exported.target == target
    assert f"layouts{' and 2 strategies' if target == 'mindspore' else ''} for {target}" in ran.err
    for refusal in exported.refused:
        assert f"not in {target}: {refusal.reason}\n" in ran.err
    output = tmp_path / "out.json"
    ran = run("export", plan_file, "--to", target, "--partial", "-o", output)
    assert ran.out == ""
    assert Export.model_validate_json(output.read_text()) == exported
    assert isinstance(exported.stages[0].mesh, DeviceGrid)


def test_export_takes_a_bare_plan_and_no_other_target(
    run: Run, plan_file: Path, files: Callable[[str, Any], Path]
) -> None:
    bare = files("bare.json", json.loads(plan_file.read_text())["plan"])
    assert run("export", bare, "--to", "jax").code == 0
    assert run("export", bare, "--to", "tensorflow").code == 2
