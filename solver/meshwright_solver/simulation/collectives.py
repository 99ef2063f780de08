"""Collectives of a plan as tasks.

A collective has the stream of the slowest level of the topology that it crosses: there it has to
wait for others. Parameters and gradients travel in buckets
(`meshwright_solver.strategies.parameter_model`), so that what is urgent waits for one bucket at
most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from meshwright.schema import Axis, OwnStep, Step
from meshwright_solver.simulation.tasks import Kind, StreamTask
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.parameter_model import BUCKET_BYTES


class CollectiveTasks:
    """Tasks of steps on one mesh."""

    def __init__(self, models: Models) -> None:
        levels = models.interconnect.levels
        self._link = {axis.name: levels.index(axis.level) for axis in models.mesh.axes}

    def of_steps(self, name: str, steps: Sequence[Step], kind: Kind) -> list[StreamTask]:
        """What only renames or cuts takes no time, and is none."""
        tasks = []
        for step in steps:
            if step.ns > 0:
                task = self._task(name, step.kind, kind, step.ns, step.payload_bytes, step.axes)
                tasks += _in_buckets(task)
        return tasks

    def of_own(self, name: str, steps: Iterable[OwnStep]) -> list[StreamTask]:
        return [
            self._task(
                name,
                f"{own.what}: {own.kind}",
                Kind.ACTIVATION,
                own.ns,
                own.payload_bytes,
                own.axes,
            )
            for own in steps
            if own.ns > 0
        ]

    def _task(
        self, name: str, what: str, kind: Kind, ns: float, payload: int, axes: Sequence[Axis]
    ) -> StreamTask:
        link = min((self._link[axis] for axis in axes), default=-1)
        return StreamTask(name, what, kind, ns, link, payload, tuple(axes))


def _in_buckets(task: StreamTask) -> list[StreamTask]:
    if task.kind not in (Kind.PARAMETER, Kind.GRADIENT):
        return [task]
    count = max(1, -(-task.payload_bytes // BUCKET_BYTES))
    part = replace(task, ns=task.ns / count, payload_bytes=task.payload_bytes // count)
    return [part] * count
