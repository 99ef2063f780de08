"""Activation recomputation in the backward section: forward tasks of segments run again."""

from __future__ import annotations

from meshwright.schema import Redistribution
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.simulation.forward import Needs
from meshwright_solver.simulation.stage_parts import StageParts
from meshwright_solver.simulation.tasks import Kind, Need, Section, StreamTask


class RecomputeWriter:
    """Writer of recomputation tasks into the section of input gradients, one segment at a time.

    done: by position, the task that recomputes an op.
    """

    def __init__(self, parts: StageParts, section: Section) -> None:
        self.parts = parts
        self.section = section
        self.done: dict[int, Need] = {}
        self._written: set[int] = set()
        self._made: dict[str, Needs] = {}
        self._shared: dict[str, Needs] = {}
        self._read: dict[tuple[str, Reader], Needs] = {}

    def write_before(self, position: int, gradients: Needs) -> None:
        """Write the segment of an op, once, to start after the gradients of the op's results."""
        remade = self.parts.models.problem.remade
        number = remade.segment_of.get(self.parts.name(position))
        if number is None or number in self._written:
            return
        self._written.add(number)
        for op in self.parts.order:
            name = self.parts.name(op)
            if remade.segment_of.get(name) == number and name in remade.again:
                self._op(op, gradients)

    def at_rest(self, value: ProblemValue) -> Needs:
        """Tasks that recompute a value in its producer's layout; none where it is saved."""
        return self._made.get(value.root, ())

    def shared(self, value: ProblemValue, gradients: Needs) -> Needs:
        """Tasks that a value depends on in the layout that its readers share."""
        root = value.root
        if root not in self._shared:
            moved = self.parts.moves.activations.get((root, None))
            self._shared[root] = self._move(moved, self.at_rest(value) or gradients)
        return self._shared[root]

    def read(self, value: ProblemValue, reader: Reader, gradients: Needs) -> Needs:
        """Tasks that a value depends on in the layout of one reader."""
        key = value.root, reader
        if key not in self._read:
            moved = self.parts.moves.activations.get(key)
            self._read[key] = self._move(moved, self.shared(value, gradients))
        return self._read[key]

    def _move(self, moved: Redistribution | None, needs: Needs) -> Needs:
        if moved is None or not moved.again:
            return needs
        steps = self.parts.collectives.of_steps(moved.tensor, moved.forward, Kind.ACTIVATION)
        return self.section.chain(steps, needs)

    def _op(self, position: int, gradients: Needs) -> None:
        parts, section = self.parts, self.section
        needs = list(gradients)
        for port, value in enumerate(parts.values_read(position)):
            if not value.is_parameter and not value.is_free:
                needs += self.read(value, (position, port), gradients)
        name = parts.name(position)
        moves = [step for step in parts.plan_of[position].own_steps if step.again]
        ready = section.chain(parts.collectives.of_own(name, moves), needs)
        work = section.add(
            StreamTask(name, "again", Kind.COMPUTE, parts.passes_ns[position][0]), ready
        )
        self.done[position] = work
        for value in parts.values_made(position):
            self._made[value.root] = (work,)
