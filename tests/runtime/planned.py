"""Plans for worlds, asked of a running service, and the collectives that a plan says run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from meshwright.client import Client
from meshwright.planfile import PlanFile
from meshwright.runtime.torch import Ran
from meshwright.schema import (
    DTYPE_BYTES,
    Constraints,
    Degrees,
    Graph,
    Mesh,
    OptimizerParallel,
    Pin,
    Plan,
    Recompute,
    Setup,
    Topology,
)
from meshwright.schema.recompute import RecomputePolicy
from tests.runtime.models import MODELS
from tests.runtime.worlds import ROWS, Case, Outcome, run_world
from tests.solver.small_graphs import topology, toy_calibration

Key = tuple[str, str, tuple[str, ...], int, str]  # cause, kind, axes, elements, tensor


@dataclass(frozen=True)
class Wanted:
    """A case to be planned: as degrees say, or searched with these pins; done again by a policy.

    repeats: collectives that bring what is done again to its readers are repeated, not saved.
    """

    name: str
    model: str
    degrees: dict[str, Any] | None = None
    pins: tuple[Pin, ...] = ()
    microbatches: int = 2
    recompute: RecomputePolicy = "none"
    repeats: bool = False
    dtype: str = "float64"


def asked(wanted: Wanted, sizes: tuple[int, ...], service: str) -> PlanFile:
    """What the service at this URL plans for a case."""
    graph = MODELS[wanted.model].graph(ROWS // wanted.microbatches)
    devices: Topology = topology(*sizes)
    (dtype,) = {t.dtype for t in graph.tensors if t.role == "parameter"}
    setup = Setup(
        global_batch=ROWS,
        microbatches=wanted.microbatches,
        gradient_dtype=dtype,
        master_dtype=None,
    )
    with Client(service) as client:
        found = client.plan(
            graph,
            devices,
            setup=setup,
            pins=wanted.pins,
            degrees=None if wanted.degrees is None else Degrees(**wanted.degrees),
            constraints=Constraints(optimizer_parallel=OptimizerParallel(threshold_kb=0)),
            recompute=Recompute(policy=wanted.recompute),
            calibration=toy_calibration(),
        ).plan
    assert found is not None
    return PlanFile(plan=found, graph=graph, topology=devices, setup=setup)


def repeating(plan: Plan) -> Plan:
    """The same plan, every redistribution of what is done again repeated too."""
    (stage,) = plan.stages
    assert stage.recompute is not None
    again = {op for segment in stage.recompute.segments for op in segment.again}
    changed = tuple(
        moved.model_copy(update={"again": True})
        if moved.traffic == "activation" and moved.tensor in again
        else moved
        for moved in stage.redistributions
    )
    stage = stage.model_copy(update={"redistributions": changed})
    return plan.model_copy(update={"stages": (stage,)})


@dataclass(frozen=True)
class Run:
    """What a case's plan says, and what came of it."""

    plan: Plan
    graph: Graph
    outcome: Outcome


def trained(
    cases: Sequence[Wanted],
    sizes: tuple[int, ...],
    folder: Path,
    service: str,
    example: str = "",
) -> dict[str, Run]:
    """All cases planned for a cluster of these levels by a service, and run in one world.

    Ranks ask the service for their shares; for a plan that no planner makes they read its file, and
    so does the example, for the first.
    """
    found = [asked(wanted, sizes, service) for wanted in cases]
    found[0].write(folder / "plan.json")
    runs = []
    for wanted, file in zip(cases, found, strict=True):
        plan, where = file.plan, file.plan.id
        if wanted.repeats:
            plan, where = repeating(file.plan), str(folder / f"{wanted.name}.json")
            file.model_copy(update={"plan": plan}).write(Path(where))
        runs.append((Case(wanted.name, wanted.model, where, wanted.dtype), plan, file.graph))
    outcomes = run_world(prod(sizes), [case for case, _, _ in runs], folder, service, example)
    return {case.name: Run(plan, graph, outcomes[case.name]) for case, plan, graph in runs}


def expected(plan: Plan, graph: Graph) -> Counter[Key]:
    """What a step of a plan of one stage runs: kind, axes, elements and tensor of every collective.

    A lookup needs no table in its backward pass: that one is gathered again for nobody, and is not.
    """
    found: Counter[Key] = Counter()
    stage = plan.stages[0]
    lookups = {op.op for op in stage.ops if op.kind == "embedding"}
    for moved in stage.redistributions:
        is_again = moved.again and moved.op not in lookups
        element_bytes = DTYPE_BYTES[graph.tensor(moved.tensor).dtype]
        for cause, steps, times in (
            ("forward", moved.forward, plan.microbatches),
            ("backward", moved.backward, plan.microbatches),
            ("again", moved.forward if is_again else (), plan.microbatches),
            ("step", moved.per_step, 1),
        ):
            for step in steps:
                if step.kind not in ("slice", "mask"):
                    axes = _ordered(stage.mesh, step.axes)
                    elements = step.payload_bytes // element_bytes
                    found[cause, step.kind, axes, elements, moved.tensor] += times
    return found


def ran(of: Iterable[Ran]) -> Counter[Key]:
    """The redistributions that ran, counted the same way."""
    causes = ("forward", "backward", "again", "step")
    return Counter(
        (own.cause, own.kind, own.axes, own.elements, own.of) for own in of if own.cause in causes
    )


def equals_one_process(run: Run, *, rounding: float = 1e-10) -> None:
    """Losses and gradients of all steps, and the parameters after them."""
    outcome = run.outcome
    assert outcome.loss_error < rounding
    assert outcome.gradient_error < rounding, outcome.worst
    assert outcome.parameter_error < 100 * rounding  # AdamW magnifies rounding


def _ordered(mesh: Mesh, axes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(axis for axis in mesh.names if axis in axes)
