"""Buckets executed: the steps of several tensors as one collective over flat buffers.

What a device sends to another lies in one buffer, the part of one tensor behind that of the other;
the receiver cuts it apart by what the layouts say, and adds the parts (all_reduce, reduce_scatter)
or puts each in its place (all_gather). Every tensor has to come out as from a step of its own.
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
    reduced,
    reduction_of,
    window,
)

KINDS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class ExecutedStep:
    """A step as it ran for one tensor alone."""

    before: Layout
    after: Layout
    held: Shards
    made: Shards


class Buckets:
    """The buckets of a stage with their steps; StepError for a tensor that has no such step.

    inside: the steps, by identity.
    """

    def __init__(self, stage: Stage) -> None:
        left: dict[tuple[str, str, str, tuple[Axis, ...]], list[Step]] = {}
        for moved in stage.redistributions:
            if moved.traffic != "activation":
                for direction, step in _directed(moved):
                    key = (moved.tensor, direction, step.kind, step.axes)
                    left.setdefault(key, []).append(step)
        self.steps: list[tuple[Bucket, list[Step]]] = []
        for bucket in stage.buckets:
            own = []
            for tensor in bucket.tensors:
                found = left.get((tensor, bucket.direction, bucket.collective, bucket.axes))
                if not found or bucket.collective not in KINDS:
                    raise StepError(f"{_said(bucket)} has {tensor!r}, which makes no such step")
                own.append(found.pop(0))
            self.steps.append((bucket, own))
        self.key_of = IdentityKeys()
        self.inside = frozenset(self.key_of(step) for _, steps in self.steps for step in steps)

    def check(self, ran: Mapping[IdentityKey, ExecutedStep], mesh: Mesh) -> int:
        """Run all buckets; how many. ran: by `key_of` a step.

        Raises StepError where a bucket differs from its steps alone.
        """
        for bucket, steps in self.steps:
            missing = [
                t for t, s in zip(bucket.tensors, steps, strict=True) if self.key_of(s) not in ran
            ]
            if missing:
                raise StepError(f"{_said(bucket)} has {missing[0]!r}, whose step never runs")
            alone = [ran[self.key_of(step)] for step in steps]
            together = run_bucket(bucket.collective, bucket.axes, alone, mesh)
            for tensor, own, made in zip(bucket.tensors, alone, together, strict=True):
                if not all(map(close, own.made, made)):
                    raise StepError(f"{_said(bucket)} makes another {tensor!r} than alone")
        return len(self.steps)


def run_bucket(
    kind: str, axes: Sequence[Axis], alone: Sequence[ExecutedStep], mesh: Mesh
) -> list[Shards]:
    """What the devices hold of every tensor after one collective for all of them."""
    tensors = [_Tensor(kind, own, mesh) for own in alone]
    made: list[Shards] = [list(own.held) for own in alone]
    for group in mesh.groups(axes):
        for rank in group:
            arrived = [
                _cut_apart(
                    np.concatenate([own.sent(other, rank).ravel() for own in tensors]),
                    [own.sent_shape(other, rank) for own in tensors],
                )
                for other in group
            ]
            for place, own in enumerate(tensors):
                made[place][rank] = own.received(group, [parts[place] for parts in arrived], rank)
    return made


class _Tensor:
    """One tensor of a bucket: what of it goes from whom to whom."""

    def __init__(self, kind: str, own: ExecutedStep, mesh: Mesh) -> None:
        self.kind = kind
        self.held, self.wanted, self.shards = stretches(own.before, own.after, own.held, mesh)
        self.reduction = reduction_of(own.before)
        self.kept = window(tuple((0, length) for length in stored_shape(own.after, mesh)))

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
            return reduced(parts, self.reduction)[self.kept]
        target = self.wanted[rank]
        whole = np.zeros([stop - start for start, stop in target], dtype=parts[0].dtype)
        for other, part in zip(group, parts, strict=True):
            paste(whole, target, part, self.held[other])
        return whole[self.kept]


def _cut_apart(buffer: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    ends = np.cumsum([prod(shape) for shape in shapes])[:-1]
    parts = np.split(buffer, ends)
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _directed(moved: Redistribution) -> Iterator[tuple[str, Step]]:
    yield from (("forward", step) for step in moved.forward)
    yield from (("backward", step) for step in moved.backward)
    yield from (("step", step) for step in moved.per_step)


def _said(bucket: Bucket) -> str:
    return f"the bucket of {bucket.collective} over {', '.join(bucket.axes)} ({bucket.direction})"
