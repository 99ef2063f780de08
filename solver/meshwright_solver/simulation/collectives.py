"""Collectives of a plan as tasks.

A collective runs on the stream of the slowest topology level that it crosses, and waits there for
other collectives. Parameters and gradients travel in buckets
(`meshwright_solver.strategies.parameter_model`), so that an urgent task waits for at most one
bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from meshwright.schema import Axis, OwnStep, Step
from meshwright_solver.simulation.tasks import Kind, StreamTask
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.parameter_model import BUCKET_BYTES


class CollectiveTasks:
    """The tasks of collective steps on one mesh."""

    def __init__(self, models: Models) -> None:
        levels = models.interconnect.levels
        self._link = {axis.name: levels.index(axis.level) for axis in models.mesh.axes}

    def of_steps(self, name: str, steps: Sequence[Step], kind: Kind) -> list[StreamTask]:
        """Tasks of a redistribution's steps; local steps take no time and have no task."""
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
                f"{step.what}: {step.kind}",
                Kind.ACTIVATION,
                step.ns,
                step.payload_bytes,
                step.axes,
            )
            for step in steps
            if step.ns > 0
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
