"""What the backward section does again: the forward pass of a segment's ops, before their turn."""

from __future__ import annotations

from meshwright.schema import Redistribution
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.simulation.forward import Needs
from meshwright_solver.simulation.stage_parts import StageParts
from meshwright_solver.simulation.tasks import Kind, Need, Section, StreamTask


class RecomputeWriter:
    """Writes into the section of inputs. A segment is written when the first of its ops comes.

    done: by position, the task that does an op again.
    """

    def __init__(self, parts: StageParts, section: Section) -> None:
        self.parts = parts
        self.section = section
        self.done: dict[int, Need] = {}
        self._written: set[int] = set()
        self._made: dict[str, Needs] = {}
        self._shared: dict[str, Needs] = {}
        self._read: dict[tuple[str, Reader], Needs] = {}

    def before(self, position: int, given: Needs) -> None:
        """Write the segment of an op whose results' gradients are `given`."""
        remade = self.parts.models.problem.remade
        number = remade.segment_of.get(self.parts.name(position))
        if number is None or number in self._written:
            return
        self._written.add(number)
        for own in self.parts.order:
            name = self.parts.name(own)
            if remade.segment_of.get(name) == number and name in remade.again:
                self._op(own, given)

    def made(self, value: ProblemValue) -> Needs:
        """What has to be done for a value to be there at rest again; nothing where it is saved."""
        return self._made.get(value.root, ())

    def shared(self, value: ProblemValue, given: Needs) -> Needs:
        """The same, as its readers share it."""
        root = value.root
        if root not in self._shared:
            moved = self.parts.moves.activations.get((root, None))
            self._shared[root] = self._moved(moved, self.made(value) or given)
        return self._shared[root]

    def read(self, value: ProblemValue, reader: Reader, given: Needs) -> Needs:
        """The same, as one of them needs it."""
        key = value.root, reader
        if key not in self._read:
            moved = self.parts.moves.activations.get(key)
            self._read[key] = self._moved(moved, self.shared(value, given))
        return self._read[key]

    def _moved(self, moved: Redistribution | None, needs: Needs) -> Needs:
        if moved is None or not moved.again:
            return needs
        steps = self.parts.collectives.of_steps(moved.tensor, moved.forward, Kind.ACTIVATION)
        return self.section.chain(steps, needs)

    def _op(self, position: int, given: Needs) -> None:
        parts, section = self.parts, self.section
        needs = list(given)
        for port, value in enumerate(parts.values_read(position)):
            if not value.is_parameter and not value.is_free:
                needs += self.read(value, (position, port), given)
        name = parts.name(position)
        moves = [step for step in parts.plan_of[position].own_steps if step.again]
        ready = section.chain(parts.collectives.of_own(name, moves), needs)
        work = section.add(
            StreamTask(name, "again", Kind.COMPUTE, parts.passes_ns[position][0]), ready
        )
        self.done[position] = work
        for value in parts.values_made(position):
            self._made[value.root] = (work,)
