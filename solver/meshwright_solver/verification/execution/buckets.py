"""Buckets: the steps of several tensors as one collective over flat buffers.

A device sends another device one buffer with the parts of all tensors, one behind the other. The
receiver splits the buffer by the layouts. It adds the parts (all_reduce, reduce_scatter) or pastes
each in its place (all_gather). Every tensor must equal the result of its own step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from meshwright.schema import Axis, Bucket, Layout, Mesh, Redistribution, Stage, Step
from meshwright.schema.regions import Region, stored_shape
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.verification.execution.collectives import StepError, paste, stretches
from meshwright_solver.verification.execution.shards import (
    Array,
    Shards,
    close,
    reduce_parts,
    reduction_of,
    window,
)

KINDS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class ExecutedStep:
    """The shards before and after a step that ran for one tensor alone."""

    before: Layout
    after: Layout
    held: Shards
    result: Shards


class Buckets:
    """The buckets of a stage with their steps; StepError for a tensor that has no such step.

    inside: the keys of the steps in buckets.
    """

    def __init__(self, stage: Stage) -> None:
        steps_of: dict[tuple[str, str, str, tuple[Axis, ...]], list[Step]] = {}
        for moved in stage.redistributions:
            if moved.traffic != "activation":
                for direction, step in _steps_by_direction(moved):
                    key = (moved.tensor, direction, step.kind, step.axes)
                    steps_of.setdefault(key, []).append(step)
        self.steps: list[tuple[Bucket, list[Step]]] = []
        for bucket in stage.buckets:
            chosen = []
            for tensor in bucket.tensors:
                candidates = steps_of.get(
                    (tensor, bucket.direction, bucket.collective, bucket.axes)
                )
                if not candidates or bucket.collective not in KINDS:
                    raise StepError(
                        f"{_bucket_name(bucket)} has {tensor!r}, which makes no such step"
                    )
                chosen.append(candidates.pop(0))
            self.steps.append((bucket, chosen))
        self.key_of = IdentityKeys()
        self.inside = frozenset(self.key_of(step) for _, steps in self.steps for step in steps)

    def check(self, ran: Mapping[IdentityKey, ExecutedStep], mesh: Mesh) -> int:
        """Run all buckets and return their number.

        ran: the executed steps, by `key_of` the step. Raises StepError where a bucket differs from
        its steps.
        """
        for bucket, steps in self.steps:
            missing = [
                t for t, s in zip(bucket.tensors, steps, strict=True) if self.key_of(s) not in ran
            ]
            if missing:
                raise StepError(f"{_bucket_name(bucket)} has {missing[0]!r}, whose step never runs")
            alone = [ran[self.key_of(step)] for step in steps]
            together = run_bucket(bucket.collective, bucket.axes, alone, mesh)
            for tensor, step_alone, shards in zip(bucket.tensors, alone, together, strict=True):
                if not all(map(close, step_alone.result, shards)):
                    raise StepError(f"{_bucket_name(bucket)} makes another {tensor!r} than alone")
        return len(self.steps)


def run_bucket(
    kind: str, axes: Sequence[Axis], alone: Sequence[ExecutedStep], mesh: Mesh
) -> list[Shards]:
    """The devices' shards of every tensor after one collective for all tensors."""
    tensors = [_Tensor(kind, step, mesh) for step in alone]
    results: list[Shards] = [list(tensor.held) for tensor in alone]
    for group in mesh.groups(axes):
        for rank in group:
            arrived = [
                _cut_apart(
                    np.concatenate([tensor.sent(other, rank).ravel() for tensor in tensors]),
                    [tensor.sent_shape(other, rank) for tensor in tensors],
                )
                for other in group
            ]
            for place, tensor in enumerate(tensors):
                results[place][rank] = tensor.received(
                    group, [parts[place] for parts in arrived], rank
                )
    return results


class _Tensor:
    """One tensor of a bucket: the regions that each member sends to each other one."""

    def __init__(self, kind: str, step: ExecutedStep, mesh: Mesh) -> None:
        self.kind = kind
        self.held, self.wanted, self.shards = stretches(step.before, step.after, step.held, mesh)
        self.reduction = reduction_of(step.before)
        self.trimmed = window(tuple((0, length) for length in stored_shape(step.after, mesh)))

    def sent(self, sender: int, receiver: int) -> Array:
        begins = [start for start, _ in self.held[sender]]
        region = self._region(sender, receiver)
        inside = tuple((a - at, b - at) for (a, b), at in zip(region, begins, strict=True))
        return self.shards[sender][window(inside)]

    def sent_shape(self, sender: int, receiver: int) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in self._region(sender, receiver))

    def _region(self, sender: int, receiver: int) -> Region:
        return self.held[sender] if self.kind == "all_gather" else self.wanted[receiver]

    def received(self, group: Sequence[int], parts: Sequence[Array], rank: int) -> Array:
        if self.kind != "all_gather":
            return reduce_parts(parts, self.reduction)[self.trimmed]
        target = self.wanted[rank]
        whole = np.zeros([stop - start for start, stop in target], dtype=parts[0].dtype)
        for other, part in zip(group, parts, strict=True):
            paste(whole, target, part, self.held[other])
        return whole[self.trimmed]


def _cut_apart(buffer: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    ends = np.cumsum([prod(shape) for shape in shapes])[:-1]
    parts = np.split(buffer, ends)
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _steps_by_direction(moved: Redistribution) -> Iterator[tuple[str, Step]]:
    for direction, steps in moved.steps_by_direction:
        yield from ((direction, step) for step in steps)


def _bucket_name(bucket: Bucket) -> str:
    return f"the bucket of {bucket.collective} over {', '.join(bucket.axes)} ({bucket.direction})"
