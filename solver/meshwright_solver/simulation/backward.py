"""The backward sections of a stage: one section, or input and weight gradients in two."""

from __future__ import annotations

from meshwright.schema import Redistribution
from meshwright_solver.evaluation.memory.event_order import OpEvent
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.simulation.forward import Needs, gathered_bytes
from meshwright_solver.simulation.recompute import RecomputeWriter
from meshwright_solver.simulation.stage_parts import BEFORE_BACKWARD, StageParts
from meshwright_solver.simulation.tasks import Gather, Kind, Need, Section, SectionKind, StreamTask


class Backward:
    """Writer of the backward sections: ops in reverse order, input gradients before weight ones.

    The section `reduce` holds the gradient reductions that run once a step, after the last
    microbatch. done: the task of every event of an op.
    """

    def __init__(self, parts: StageParts, forward: dict[int, Need], *, split: bool) -> None:
        self.parts = parts
        self.forward = forward
        self.inputs = Section(SectionKind.I if split else SectionKind.B)
        self.weights = Section(SectionKind.W) if split else self.inputs
        self.reduce = Section(SectionKind.REDUCE)
        self.done: dict[tuple[OpEvent, int], Need] = {}
        self._unread = self._reader_counts()
        self._gradients: dict[str, list[Need]] = {}
        self._ready: dict[str, Needs] = {}
        self._recompute = RecomputeWriter(parts, self.inputs)
        self._gathered: dict[tuple[str, SectionKind], Needs] = {}
        self._gathers: dict[tuple[str, SectionKind], Gather] = {}

    def write(self) -> tuple[Section, Section]:
        """Write the sections of input and weight gradients; they are one object without a split."""
        value_of = self.parts.models.values.value_of
        for number, name in enumerate(self.parts.sends):
            gradients = self._gradients.setdefault(value_of[name].root, [])
            gradients.append(Need(self.inputs.part, number, 1))
        for position in reversed(self.parts.order):
            self.inputs.owner = self.weights.owner = position
            self._recompute.write_before(position, self._result_gradients(position))
            if self.parts.model(position).runs_backward:
                self._op(position)
        self._send()
        self.done |= {
            (OpEvent.AGAIN, position): task for position, task in self._recompute.done.items()
        }
        return self.inputs, self.weights

    def _reader_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for position in self.parts.order:
            for value in self._gradient_values(position):
                counts[value.root] = counts.get(value.root, 0) + 1
        return counts

    def _gradient_values(self, position: int) -> list[ProblemValue]:
        """Values that an op computes gradients of, one entry a read."""
        model = self.parts.model(position)
        if not model.runs_backward:
            return []
        values = self.parts.values_read(position)
        return [
            value for value, port in zip(values, model.inputs, strict=True) if port.has_gradient
        ]

    def _op(self, position: int) -> None:
        parts = self.parts
        name, (_, inputs_ns, weights_ns) = parts.name(position), parts.passes_ns[position]
        share = parts.model(position).weights_share
        gradients = self._result_gradients(position)
        before, beside, after = parts.own_steps(position, "backward", BEFORE_BACKWARD)
        first = self.weights if share == 1 else self.inputs
        gradients = first.chain(parts.collectives.of_own(name, before), gradients)
        done: list[Need] = []
        if share < 1:
            needs = self._half_needs(position, gradients, SectionKind.I)
            task = self.inputs.add(StreamTask(name, "backward", Kind.COMPUTE, inputs_ns), needs)
            done.append(task)
            self.done[OpEvent.INPUTS, position] = task
            self._note_reader(position, task, SectionKind.I)
        of_weights = done
        if share > 0:
            needs = self._half_needs(position, gradients, SectionKind.W)
            task = self.weights.add(StreamTask(name, "weights", Kind.COMPUTE, weights_ns), needs)
            of_weights = [task]
            self.done[OpEvent.WEIGHTS, position] = task
            self._note_reader(position, task, SectionKind.W)
            done = done or [task]
        if beside:
            done = [*done, *first.chain(parts.collectives.of_own(name, beside), gradients)]
        ended = first.chain(parts.collectives.of_own(name, after), done)
        model = parts.model(position)
        for port, value in enumerate(parts.values_read(position)):
            if model.inputs[port].has_gradient:
                port_gradients = tuple(of_weights) if value.is_parameter and share > 0 else ended
                self._gradient(value, (position, port), port_gradients)

    def _result_gradients(self, position: int) -> Needs:
        """Tasks that the gradients of an op's results depend on."""
        needs: list[Need] = []
        for value in self.parts.values_made(position):
            self._share_gradient(value)
            needs += self._ready.get(value.root, ())
        # the loss and unread results have no reader: they depend on the forward task alone
        return tuple(needs) or (self.forward[position],)

    def _share_gradient(self, value: ProblemValue) -> None:
        """Redistribute the summed gradient of a value to its producer's layout, once."""
        root = value.root
        if root in self._ready or root not in self._gradients:
            return
        moved = self.parts.moves.activations.get((root, None))
        self._ready[root] = self._backward(
            self.inputs, moved, tuple(self._gradients[root]), Kind.ACTIVATION
        )

    def _gradient(self, value: ProblemValue, reader: Reader, gradients: Needs) -> None:
        root = value.root
        moved = self.parts.moves.activations.get((root, reader))
        section = self.inputs if gradients[-1].part == self.inputs.part else self.weights
        gradients = self._backward(section, moved, gradients, Kind.ACTIVATION)
        if value.is_parameter:
            self._reduce((root, reader), gradients)
        self._gradients.setdefault(root, []).extend(gradients)
        self._unread[root] -= 1
        if not self._unread[root]:
            if value.is_parameter:
                self._reduce((root, None), tuple(self._gradients[root]))
            else:
                self._share_gradient(value)

    def _reduce(self, served: tuple[str, Reader | None], gradients: Needs) -> None:
        moved = self.parts.moves.reductions.get(served)
        if moved is None:
            return
        gradients = self._backward(self.weights, moved, gradients, Kind.GRADIENT)
        steps = self.parts.collectives.of_steps(served[0], moved.per_step, Kind.GRADIENT)
        self.reduce.chain(steps, gradients)

    def _backward(
        self, section: Section, moved: Redistribution | None, needs: Needs, kind: Kind
    ) -> Needs:
        if moved is None:
            return needs
        return section.chain(
            self.parts.collectives.of_steps(moved.tensor, moved.backward, kind), needs
        )

    def _half_needs(self, position: int, gradients: Needs, half: SectionKind) -> Needs:
        """Needs of one half of an op: result gradients, and inputs gathered or recomputed again."""
        parts, section = self.parts, self._section(half)
        needs = list(gradients)
        for port, value in enumerate(parts.values_read(position)):
            if parts.backward_half(position, value) is not half:
                continue
            reader = (position, port)
            if value.is_parameter:
                needs += self._gather_again(value, reader, section)
            elif reader in value.saving:
                needs += self._recompute.read(value, reader, gradients)
        return tuple(needs)

    def _section(self, half: SectionKind) -> Section:
        return self.weights if half is SectionKind.W else self.inputs

    def _gather_again(self, value: ProblemValue, reader: Reader, section: Section) -> Needs:
        gathers, root = self.parts.moves.gathers, value.root
        moved = gathers.get((root, reader)) or gathers.get((root, None))
        if moved is None or not moved.again:
            return ()
        key = root, section.part
        if (root, None) not in gathers or key not in self._gathered:
            first = len(section.tasks)
            self._gathered[key] = self._forward(section, moved, (), Kind.PARAMETER)
            if len(section.tasks) > first:
                gather = Gather(first, first, gathered_bytes(moved))
                section.gathers.append(gather)
                self._gathers[key] = gather
        return self._gathered[key]

    def _forward(self, section: Section, moved: Redistribution, needs: Needs, kind: Kind) -> Needs:
        steps = self.parts.collectives.of_steps(moved.tensor, moved.forward, kind)
        return section.chain(steps, needs)

    def _note_reader(self, position: int, task: Need, half: SectionKind) -> None:
        """Record an op's half as the last reader so far of the parameters gathered for it."""
        for value in self.parts.values_read(position):
            if value.is_parameter and self.parts.backward_half(position, value) is half:
                gather = self._gathers.get((value.root, task.part))
                if gather is not None:
                    gather.reader = task.number

    def _send(self) -> None:
        """Add the transfers of gradients to the previous stage, in the order in which it sends."""
        value_of = self.parts.models.values.value_of
        for name, (_, back_ns) in self.parts.receives.items():
            value = value_of[name]
            self._share_gradient(value)
            self.inputs.send(name, "send back", back_ns, self._ready.get(value.root, ()))
