"""Eight host devices train a Llama under plans, and equal one device to rounding."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import jax
import pytest

from meshwright.capture import capture_jax
from meshwright.planfile import PlanFile
from meshwright.schema import (
    DTYPE_BYTES,
    Constraints,
    Degrees,
    Graph,
    OpPlan,
    OptimizerParallel,
    Plan,
    Recompute,
    Setup,
)
from meshwright.schema.stage import OwnStep
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents
from tests.capture.rotation import rotating, values_of_session
from tests.one_stage import one_stage_request
from tests.runtime.jax.devices import ROWS, Case, Outcome, run_devices
from tests.runtime.jax.models import recipe
from tests.runtime.planned import expected
from tests.solver.small_graphs import topology, toy_calibration

Ran = Counter[tuple[str, tuple[tuple[int, ...], ...], int]]


@dataclass(frozen=True)
class Wanted:
    """A case to be planned as degrees say."""

    name: str
    degrees: dict[str, Any]
    model: str = "llama"
    form: str = "exact"
    microbatches: int = 2
    dtype: str = "float64"
    recompute: Recompute = field(default_factory=Recompute)


MIXED = {"dp": 4, "tp": 2, "sequence_parallel": True}
CASES = (
    Wanted("tensor, sequence and data", MIXED),
    Wanted("tensor and data", {"dp": 4, "tp": 2}, microbatches=1),
    Wanted("zero 1", {"dp": 4, "tp": 2, "zero": 1}),
    Wanted("zero 2, a scan", {"dp": 8, "zero": 2}, model="scanned"),
    Wanted("zero 3", {"dp": 8, "zero": 3}),
    Wanted("zero 3, recompute", {**MIXED, "zero": 3}, recompute=Recompute(policy="full")),
    Wanted("data, float32", {"dp": 8}, microbatches=1, dtype="float32"),
    Wanted("as XLA chooses", MIXED, form="automatic"),
)
FIRST, *SOME, LAST = CASES  # the first is that of the docs, the last has another form
EVERY = (FIRST, *rotating(SOME, lambda wanted: wanted.name), LAST)
EXACT = EVERY[:-1]


@dataclass(frozen=True)
class Run:
    """What a case's plan says, and what came of it."""

    plan: Plan
    graph: Graph
    outcome: Outcome


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    """Of the cases that this session tests."""
    folder: Path = tmp_path_factory.mktemp("jax")
    names = {FIRST.name, *(wanted.name for wanted in values_of_session(request, "wanted"))}
    chosen = [wanted for wanted in CASES if wanted.name in names]
    planned = {wanted.name: _planned(wanted, folder) for wanted in chosen}
    (folder / "plan.json").write_bytes(planned[CASES[0].name][0].read_bytes())
    cases = [
        Case(w.name, w.model, str(planned[w.name][0]), w.form, w.microbatches, w.dtype)
        for w in chosen
    ]
    page = Path(__file__).parents[3] / "docs" / "how-to" / "runtime-jax.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = run_devices(cases, folder, example)
    return {name: Run(own, graph, found[name]) for name, (_, own, graph) in planned.items()}


def _planned(wanted: Wanted, folder: Path) -> tuple[Path, Plan, Graph]:
    graph = _graph(wanted.model, ROWS // wanted.microbatches)
    setup = Setup(
        global_batch=ROWS,
        microbatches=wanted.microbatches,
        gradient_dtype="float64",
        master_dtype=None,
    )
    request = one_stage_request(
        graph=graph,
        topology=topology(8),
        setup=setup,
        degrees=Degrees(**wanted.degrees),
        constraints=Constraints(optimizer_parallel=OptimizerParallel(threshold_kb=0)),
        recompute=wanted.recompute,
        calibration=toy_calibration(),
    )
    found = plan(request).plan
    assert found is not None
    certificate = verify_documents(found, graph, topology(8), setup, toy_calibration())
    assert certificate.outcome == "verified", certificate.detail
    file = folder / f"{wanted.name}.json"
    PlanFile(plan=found, graph=graph, topology=topology(8), setup=setup).write(file)
    return file, found, graph


@cache
def _graph(model: str, rows: int) -> Graph:
    with jax.enable_x64(True):
        return capture_jax(recipe(model, rows))


@pytest.mark.parametrize("wanted", EVERY, ids=lambda wanted: wanted.name)
def test_losses_and_gradients_are_those_of_one_device(runs: dict[str, Run], wanted: Wanted) -> None:
    outcome = runs[wanted.name].outcome
    rounding = 1e-10 if wanted.dtype == "float64" else 1e-5
    assert outcome.loss_error < rounding
    assert outcome.gradient_error < rounding
    assert outcome.parameter_error < 100 * rounding  # AdamW magnifies rounding


@pytest.mark.parametrize("wanted", EXACT, ids=lambda wanted: wanted.name)
def test_the_compiled_collectives_are_the_plans(runs: dict[str, Run], wanted: Wanted) -> None:
    run = runs[wanted.name]
    assert not run.outcome.fallen_back
    assert _ran(run.outcome) - _reported(run) == _of_plan(run)


@pytest.mark.parametrize("wanted", EVERY, ids=lambda wanted: wanted.name)
def test_optimizer_state_is_sharded_as_planned(runs: dict[str, Run], wanted: Wanted) -> None:
    run = runs[wanted.name]
    (stage,) = run.plan.stages
    for parameter in stage.parameters:
        layout = parameter.optimizer or parameter.value
        assert prod(run.outcome.shards[parameter.tensor]) == prod(layout.local_shape(stage.mesh))


def _ran(outcome: Outcome) -> Ran:
    found: Ran = Counter()
    for kind, groups, elements, times in outcome.collectives:
        name = {"collective-permute": "permute"}.get(kind, kind.replace("-", "_"))
        # pairs of a permute say who sends to whom, not who is in a group
        members = () if name == "permute" else tuple(sorted(map(tuple, groups)))
        found[name, members, elements] += times
    return found


def _of_plan(run: Run) -> Ran:
    """Redistributions, and what ops reduce by themselves."""
    found: Ran = Counter()
    mesh = run.plan.stages[0].mesh
    for (_, kind, names, elements, _), times in expected(run.plan, [0], run.graph).items():
        axes = [axis for axis in mesh.names if axis in names]
        groups = tuple(sorted(tuple(map(int, group)) for group in mesh.groups(axes)))
        found[kind, () if kind == "permute" else groups, elements] += times
    for own, step in _own_steps(run.plan):
        groups = tuple(sorted(tuple(map(int, group)) for group in mesh.groups(step.axes)))
        elements = step.payload_bytes // DTYPE_BYTES[run.graph.tensor(own.op).dtype]
        # the plan counts one number a row; a softmax over parts has its maximum before its sum
        collectives = 2 if "softmax" in own.kind and step.direction == "forward" else 1
        found[step.kind, groups, elements] += collectives * run.plan.microbatches
    return found


def _own_steps(plan: Plan) -> list[tuple[OpPlan, OwnStep]]:
    (stage,) = plan.stages
    return [(op, step) for op in stage.ops for step in op.own_steps]


def _reported(run: Run) -> Ran:
    """The loss that the caller sees is whole on all devices."""
    assert run.graph.loss is not None
    (stage,) = run.plan.stages
    (loss,) = [own.rest.value for own in stage.tensors if own.tensor == run.graph.loss]
    axes = tuple(axis for axis in stage.mesh.names if axis in loss.partial)
    groups = tuple(sorted(tuple(map(int, group)) for group in stage.mesh.groups(axes)))
    return Counter({("all_reduce", groups, 1): 1} if axes else {})
