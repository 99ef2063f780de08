"""Own steps of ops: the devices whose shards meet inside an op, by the plan's own steps alone.

Statistics, candidates and halos: the inputs of all members of a group meet on each member, and
every device keeps its part of the result. Rings and rows by index: an input with a follower but
without its leader visits the members of the group. Backward, a device adds the gradients that those
members made for its part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from meshwright.schema import Axis, Mesh, OwnStep, Rank
from meshwright_solver.verification.execution.collectives import StepError
from meshwright_solver.verification.execution.stage_lookup import StageLookup

Direction = Literal["forward", "backward"]

KINDS = {
    "statistics": "all_reduce",
    "candidates": "all_gather",
    "halo": "send",
    "ring": "send",
    "indices": "all_to_all",
    "rows": "all_to_all",
    "receive": "send",
    "return": "send",
}


class OwnSteps:
    """The own steps of one op, as groups of devices; StepError for one that the op cannot have."""

    def __init__(self, planned: StageLookup, position: int) -> None:
        self.mesh: Mesh = planned.mesh
        self.op = planned.problem.ops[position]
        model = planned.model(position)
        codes = planned.strategies[position]
        self.parts_on = {
            name: model.parts_of_code[code]
            for name, code in zip(self.mesh.names, codes, strict=True)
        }
        self.steps = planned.own_steps(position)
        for step in self.steps:
            self._check(step)

    def _check(self, step: OwnStep) -> None:
        if KINDS[step.what] != step.kind:
            raise StepError(f"op {self.op.name!r}: {step.what} are not moved by {step.kind}")
        for axis in step.axes:
            if not self._may(step.what, axis):
                raise StepError(f"op {self.op.name!r} has no {step.what} over axis {axis!r}")

    def _may(self, what: str, axis: Axis) -> bool:
        on = [self.op.parts[part] for part in self.parts_on[axis]]
        if what in ("statistics", "candidates"):
            picks = self.op.known is not None and self.op.known.candidates > 0
            return picks == (what == "candidates") and any(part.reused for part in on)
        if what == "halo":
            return any(part.halo_elements for part in on)
        return len(on) > 1

    def peers(self, rank: int, direction: Direction) -> Sequence[int]:
        """The devices whose shards of any input meet on this device."""
        axes = {
            axis
            for step in self.steps
            if step.what in ("statistics", "candidates", "halo") and step.direction == direction
            for axis in step.axes
        }
        axes |= {axis for axis in self.mesh.names if self._is_halo_of_nothing(axis)}
        if not axes:
            return (rank,)
        return self._group(tuple(axis for axis in self.mesh.names if axis in axes), rank)

    def _is_halo_of_nothing(self, axis: Axis) -> bool:
        """Whether an axis is on a factor of differing extents, of which neighbors send nothing."""
        assert self.op.known is not None or not self.parts_on[axis]
        on = [self.op.parts[part] for part in self.parts_on[axis]]
        return any(
            not part.halo_elements and part.factor in self.op.known.rule.parsed.halo  # type: ignore[union-attr]  # an unknown op has no parts
            for part in on
        )

    def input_sources(self, k: int, rank: int, direction: Direction) -> Sequence[int]:
        """The devices whose parts of input `k` pass this device, this one first."""
        return self._along(k, rank, direction, -1)

    def gradient_sources(self, k: int, rank: int) -> Sequence[int]:
        """The devices that add to the gradient of this one's part of input `k`, this one first."""
        return self._along(k, rank, "backward", 1)

    def _along(self, k: int, rank: int, direction: Direction, sign: int) -> Sequence[int]:
        ranks: dict[int, None] = {rank: None}
        for axes, times in self._travels(direction):
            if any(self._travels_over(k, axis) for axis in axes):
                group = self._group(axes, rank)
                place = group.index(Rank(rank))
                hops = range(1, times + 1)
                ranks |= dict.fromkeys(group[(place + sign * hop) % len(group)] for hop in hops)
        return tuple(ranks)

    def _travels(self, direction: Direction) -> Iterator[tuple[tuple[Axis, ...], int]]:
        """Groups in which followers travel, and the number of hops: round a ring, or to all."""
        steps = [step for step in self.steps if step.direction == direction]
        for step in steps:
            if step.what == "ring":
                yield step.axes, step.times
        indexed = {step.axes for step in steps if step.what == "indices"}
        for step in steps:
            if step.what == "rows" and (direction == "backward" or step.axes in indexed):
                yield step.axes, self.mesh.size(step.axes) - 1

    def _travels_over(self, k: int, axis: Axis) -> bool:
        on = self.parts_on[axis]
        slots = self.op.inputs[k].slot_of
        return len(on) > 1 and on[0] not in slots and any(part in slots for part in on[1:])

    def _group(self, axes: tuple[Axis, ...], rank: int) -> Sequence[Rank]:
        return next(group for group in self.mesh.groups(axes) if rank in group)

    def has_own_part(self, k: int) -> bool:
        """Whether input `k` has all parts over which statistics or halos are exchanged."""
        axes = {
            axis
            for axis in self.mesh.names
            if self._may("statistics", axis)
            or self._may("candidates", axis)
            or self._may("halo", axis)
            or self._is_halo_of_nothing(axis)
        }
        slots = self.op.inputs[k].slot_of
        return all(any(part in slots for part in self.parts_on[axis]) for axis in axes)
