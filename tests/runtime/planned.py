"""Plan files for worlds, and the collectives that a plan says run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meshwright.planfile import PlanFile
from meshwright.runtime.torch import Ran
from meshwright.schema import (
    Constraints,
    Degrees,
    Mesh,
    OptimizerParallel,
    Plan,
    Request,
    Setup,
    Topology,
)
from solver.planner import plan
from tests.runtime.models import MODELS
from tests.runtime.worlds import ROWS, Case
from tests.solver.small_graphs import topology

Key = tuple[str, str, tuple[str, ...], int, str]  # cause, kind, axes, bytes, tensor


@dataclass(frozen=True)
class Wanted:
    """A case to be planned. degrees: None = searched. zero: the level, of all parameters."""

    name: str
    model: str
    degrees: dict[str, Any] | None = None
    zero: int | None = None
    microbatches: int = 2
    setup: dict[str, Any] = field(default_factory=dict)


def written(wanted: Wanted, sizes: tuple[int, ...], folder: Path) -> tuple[Case, Plan]:
    """Plan a case and write its file."""
    graph = MODELS[wanted.model].graph(ROWS // wanted.microbatches)
    devices: Topology = topology(*sizes)
    setup = Setup(
        global_batch=ROWS,
        microbatches=wanted.microbatches,
        gradient_dtype="float64",
        master_dtype=None,
        **wanted.setup,
    )
    level = None if wanted.zero is None else OptimizerParallel(level=wanted.zero, threshold_kb=0)
    request = Request(
        graph=graph,
        topology=devices,
        setup=setup,
        degrees=None if wanted.degrees is None else Degrees(**wanted.degrees),
        constraints=Constraints(optimizer_parallel=level or OptimizerParallel()),
    )
    found = plan(request).plan
    assert found is not None
    file = folder / f"{wanted.name}.json"
    PlanFile(plan=found, graph=graph, topology=devices, setup=setup).write(file)
    return Case(wanted.name, wanted.model, file), found


def expected(plan: Plan) -> Counter[Key]:
    """What a step of a plan of one stage runs: kind, axes, bytes and tensor of every collective."""
    found: Counter[Key] = Counter()
    stage = plan.stages[0]
    for moved in stage.redistributions:
        for cause, steps, times in (
            ("forward", moved.forward, plan.microbatches),
            ("backward", moved.backward, plan.microbatches),
            ("again", moved.forward if moved.again else (), plan.microbatches),
            ("step", moved.per_step, 1),
        ):
            for step in steps:
                if step.kind not in ("slice", "mask"):
                    axes = _ordered(stage.mesh, step.axes)
                    found[cause, step.kind, axes, step.payload_bytes, moved.tensor] += times
    return found


def ran(of: Iterable[Ran]) -> Counter[Key]:
    """The redistributions that ran, counted the same way."""
    causes = ("forward", "backward", "again", "step")
    return Counter(
        (own.cause, own.kind, own.axes, own.bytes, own.of) for own in of if own.cause in causes
    )


def _ordered(mesh: Mesh, axes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(axis for axis in mesh.names if axis in axes)
