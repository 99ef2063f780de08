"""Plans for worlds, asked of a running service, and the collectives that a plan says run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from meshwright.client import Client
from meshwright.planfile import PlanFile
from meshwright.runtime.torch import LoggedCollective
from meshwright.schema import (
    DTYPE_BYTES,
    Constraints,
    Degrees,
    Graph,
    Mesh,
    OptimizerParallel,
    Pin,
    Pipeline,
    Plan,
    Recompute,
    Setup,
    Step,
    Topology,
)
from meshwright.schema.recompute import RecomputePolicy
from tests.runtime.models import MODELS
from tests.runtime.sent import sends
from tests.runtime.worlds import ROWS, Case, Outcome, run_world
from tests.solver.small_graphs import topology, toy_calibration

STEPS, FEW = 10, 3
Key = tuple[str, str, tuple[str, ...], int, str]  # cause, kind, axes, elements, tensor


@dataclass(frozen=True)
class Wanted:
    """A case to be planned: as degrees say, or searched with these pins; done again by a policy.

    repeats: collectives that bring what is done again to its readers are repeated, not saved.
    steps: FEW where another case trains the same model for longer.
    """

    name: str
    model: str
    degrees: dict[str, Any] | None = None
    pins: tuple[Pin, ...] = ()
    microbatches: int = 2
    recompute: RecomputePolicy | Recompute = "none"
    repeats: bool = False
    dtype: str = "float64"
    pipeline: Pipeline | None = None
    sequence_order: Literal["contiguous", "zigzag"] = "contiguous"
    steps: int = STEPS


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
        sequence_order=wanted.sequence_order,
    )
    with Client(service) as client:
        found = client.plan(
            graph,
            devices,
            setup=setup,
            pins=wanted.pins,
            pipeline=wanted.pipeline,
            degrees=None if wanted.degrees is None else Degrees(**wanted.degrees),
            constraints=Constraints(optimizer_parallel=OptimizerParallel(threshold_kb=0)),
            recompute=wanted.recompute
            if isinstance(wanted.recompute, Recompute)
            else Recompute(policy=wanted.recompute),
            calibration=toy_calibration(),
        ).plan
    assert found is not None
    assert bool(found.order) == (wanted.sequence_order == "zigzag")
    if wanted.pipeline is not None:
        assert found.schedule is not None
        assert found.schedule.kind == wanted.pipeline.schedule
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

    file: PlanFile
    outcome: Outcome

    @property
    def plan(self) -> Plan:
        return self.file.plan

    @property
    def graph(self) -> Graph:
        assert self.file.graph is not None
        return self.file.graph


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
    files, starts = {}, []
    for wanted, file in zip(cases, found, strict=True):
        where = file.plan.id
        if wanted.repeats:
            file = file.model_copy(update={"plan": repeating(file.plan)})
            where = str(folder / f"{wanted.name}.json")
            file.write(Path(where))
        files[wanted.name] = file
        starts.append(Case(wanted.name, wanted.model, where, wanted.dtype, wanted.steps))
    outcomes = run_world(prod(sizes), starts, folder, service, example)
    return {name: Run(file, outcomes[name]) for name, file in files.items()}


def runs_as_planned(run: Run) -> None:
    """Every rank runs the collectives of its stages, and all send what the planner priced."""
    plan, outcome = run.file.plan, run.outcome
    for rank, found in enumerate(outcome.ran):
        own = [
            number
            for number, stage in enumerate(plan.stages)
            if 0 <= rank - stage.ranks_from < stage.mesh.device_count
        ]
        assert _without_slots(_ran(found), run) == _without_slots(
            expected(plan, own, run.graph), run
        )
    sent = Counter(
        (own.cause, own.of, own.ranks, own.elements)
        for found in outcome.ran
        for own in found
        if own.kind == "send"
    )
    assert sent == sends(run.file)


def expected(plan: Plan, numbers: Sequence[int], graph: Graph) -> Counter[Key]:
    """What a step of some stages runs: kind, axes, elements and tensor of every collective.

    A lookup needs no table in its backward pass, and what adds a bias not that: these would be
    gathered again for nobody, and are not.
    """
    found: Counter[Key] = Counter()

    def add(mesh: Mesh, tensor: str, cause: str, steps: Sequence[Step], times: int) -> None:
        element_bytes = DTYPE_BYTES[graph.tensor(tensor).dtype]
        for step in steps:
            if step.kind not in ("slice", "mask"):
                elements = step.payload_bytes // element_bytes
                found[cause, step.kind, _ordered(mesh, step.axes), elements, tensor] += times

    for number in numbers:
        stage, each = plan.stages[number], plan.microbatches
        needless = {(op.op, 0) for op in stage.ops if op.kind == "embedding"}
        needless |= {(op.op, 2) for op in stage.ops if op.kind == "linear"}
        for moved in stage.redistributions:
            add(stage.mesh, moved.tensor, "forward", moved.forward, each)
            add(stage.mesh, moved.tensor, "backward", moved.backward, each)
            if moved.again and (moved.op, moved.input) not in needless:
                add(stage.mesh, moved.tensor, "again", moved.forward, each)
            add(stage.mesh, moved.tensor, "step", moved.per_step, 1)
        for received in stage.receives:
            add(stage.mesh, received.tensor, "backward", received.gradient_reduction, each)
        after = plan.stages[number + 1].receives if number + 1 < len(plan.stages) else ()
        for received in after:
            add(stage.mesh, received.tensor, "forward", received.reduction, each)
    return found


def _ran(of: Iterable[LoggedCollective]) -> Counter[Key]:
    """The redistributions that ran, counted the same way."""
    causes = ("forward", "backward", "again", "step")
    return Counter(
        (own.cause, own.kind, own.axes, own.elements, own.of)
        for own in of
        if own.cause in causes and own.kind != "send"
    )


def _without_slots(of: Counter[Key], run: Run) -> Counter[Key]:
    """The same, without elements of tensors with slots, which the busiest expert determines."""
    graph = run.graph
    slots = {graph.tensor(op.outputs[0]).shape[:3] for op in graph.ops if op.kind == "moe_dispatch"}
    names = {tensor.name for tensor in graph.tensors if tensor.shape[:3] in slots}
    counts: Counter[Key] = Counter()
    for (cause, kind, axes, elements, name), count in of.items():
        counts[cause, kind, axes, 0 if name in names else elements, name] += count
    return counts


def equals_one_process(run: Run, *, rounding: float = 1e-10) -> None:
    """Losses and gradients of all steps, and the parameters after them."""
    outcome = run.outcome
    assert outcome.loss_error < rounding
    assert outcome.gradient_error < rounding, outcome.worst
    assert outcome.parameter_error < 100 * rounding  # AdamW magnifies rounding


def _ordered(mesh: Mesh, axes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(axis for axis in mesh.names if axis in axes)
