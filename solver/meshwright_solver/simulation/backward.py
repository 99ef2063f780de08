"""The backward sections of a stage: whole, or inputs and weights apart."""

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
    """Writes the sections, ops in the reverse order: an op's inputs, then its weights.

    Reductions of the whole step stand in a section of their own, after the last microbatch's. done:
    the task of every event of an op.
    """

    def __init__(self, parts: StageParts, forward: dict[int, Need], *, split: bool) -> None:
        self.parts = parts
        self.forward = forward
        self.inputs = Section(SectionKind.I if split else SectionKind.B)
        self.weights = Section(SectionKind.W) if split else self.inputs
        self.reduce = Section(SectionKind.REDUCE)
        self.done: dict[tuple[OpEvent, int], Need] = {}
        self._left = self._readers_left()
        self._gradients: dict[str, list[Need]] = {}
        self._ready: dict[str, Needs] = {}
        self._again = RecomputeWriter(parts, self.inputs)
        self._gathered: dict[tuple[str, SectionKind], Needs] = {}
        self._gathers: dict[tuple[str, SectionKind], Gather] = {}

    def write(self) -> tuple[Section, Section]:
        """The section of inputs and that of weights: one and the same where it is whole."""
        value_of = self.parts.models.values.value_of
        for number, name in enumerate(self.parts.sends):
            gradients = self._gradients.setdefault(value_of[name].root, [])
            gradients.append(Need(self.inputs.part, number, 1))
        for position in reversed(self.parts.order):
            self.inputs.owner = self.weights.owner = position
            self._again.before(position, self._given(position))
            if self.parts.model(position).runs_backward:
                self._op(position)
        self._send()
        self.done |= {(OpEvent.AGAIN, position): own for position, own in self._again.done.items()}
        return self.inputs, self.weights

    def _readers_left(self) -> dict[str, int]:
        left: dict[str, int] = {}
        for position in self.parts.order:
            for value in self._wanted(position):
                left[value.root] = left.get(value.root, 0) + 1
        return left

    def _wanted(self, position: int) -> list[ProblemValue]:
        """Values of which an op makes a gradient, as often as it reads them."""
        model = self.parts.model(position)
        if not model.runs_backward:
            return []
        values = self.parts.values_read(position)
        return [own for own, port in zip(values, model.inputs, strict=True) if port.has_gradient]

    def _op(self, position: int) -> None:
        parts = self.parts
        name, (_, inputs_ns, weights_ns) = parts.name(position), parts.passes_ns[position]
        share = parts.model(position).weights_share
        given = self._given(position)
        before, beside, after = parts.own_steps(position, "backward", BEFORE_BACKWARD)
        first = self.weights if share == 1 else self.inputs
        given = first.chain(parts.collectives.of_own(name, before), given)
        done: list[Need] = []
        if share < 1:
            needs = self._saved(position, given, SectionKind.I)
            own = self.inputs.add(StreamTask(name, "backward", Kind.COMPUTE, inputs_ns), needs)
            done.append(own)
            self.done[OpEvent.INPUTS, position] = own
            self._reads(position, own, SectionKind.I)
        of_weights = done
        if share > 0:
            needs = self._saved(position, given, SectionKind.W)
            own = self.weights.add(StreamTask(name, "weights", Kind.COMPUTE, weights_ns), needs)
            of_weights = [own]
            self.done[OpEvent.WEIGHTS, position] = own
            self._reads(position, own, SectionKind.W)
            done = done or [own]
        if beside:
            done = [*done, *first.chain(parts.collectives.of_own(name, beside), given)]
        ended = first.chain(parts.collectives.of_own(name, after), done)
        model = parts.model(position)
        for port, value in enumerate(parts.values_read(position)):
            if model.inputs[port].has_gradient:
                made = tuple(of_weights) if value.is_parameter and share > 0 else ended
                self._gradient(value, (position, port), made)

    def _given(self, position: int) -> Needs:
        """What has to be done for the gradients of an op's results to be there."""
        needs: list[Need] = []
        for value in self.parts.values_made(position):
            self._share(value)
            needs += self._ready.get(value.root, ())
        # the loss, or what nobody reads: as soon as it is made
        return tuple(needs) or (self.forward[position],)

    def _share(self, value: ProblemValue) -> None:
        """The gradients of all readers together, brought to where the value was made."""
        root = value.root
        if root in self._ready or root not in self._gradients:
            return
        moved = self.parts.moves.activations.get((root, None))
        self._ready[root] = self._backward(
            self.inputs, moved, tuple(self._gradients[root]), Kind.ACTIVATION
        )

    def _gradient(self, value: ProblemValue, reader: Reader, made: Needs) -> None:
        root = value.root
        moved = self.parts.moves.activations.get((root, reader))
        section = self.inputs if made[-1].part == self.inputs.part else self.weights
        made = self._backward(section, moved, made, Kind.ACTIVATION)
        if value.is_parameter:
            self._reduce((root, reader), made)
        self._gradients.setdefault(root, []).extend(made)
        self._left[root] -= 1
        if not self._left[root]:
            if value.is_parameter:
                self._reduce((root, None), tuple(self._gradients[root]))
            else:
                self._share(value)

    def _reduce(self, served: tuple[str, Reader | None], made: Needs) -> None:
        moved = self.parts.moves.reductions.get(served)
        if moved is None:
            return
        made = self._backward(self.weights, moved, made, Kind.GRADIENT)
        steps = self.parts.collectives.of_steps(served[0], moved.per_step, Kind.GRADIENT)
        self.reduce.chain(steps, made)

    def _backward(
        self, section: Section, moved: Redistribution | None, needs: Needs, kind: Kind
    ) -> Needs:
        if moved is None:
            return needs
        return section.chain(
            self.parts.collectives.of_steps(moved.tensor, moved.backward, kind), needs
        )

    def _saved(self, position: int, given: Needs, half: SectionKind) -> Needs:
        """Gradients of results, and what a half of the op needs again of its inputs."""
        parts, section = self.parts, self._section(half)
        needs = list(given)
        for port, value in enumerate(parts.values_read(position)):
            if parts.backward_half(position, value) is not half:
                continue
            reader = (position, port)
            if value.is_parameter:
                needs += self._parameter_again(value, reader, section)
            elif reader in value.saving:
                needs += self._again.read(value, reader, given)
        return tuple(needs)

    def _section(self, half: SectionKind) -> Section:
        return self.weights if half is SectionKind.W else self.inputs

    def _parameter_again(self, value: ProblemValue, reader: Reader, section: Section) -> Needs:
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

    def _reads(self, position: int, own: Need, half: SectionKind) -> None:
        """Note that an op's half was the last so far to need what is gathered for it."""
        for value in self.parts.values_read(position):
            if value.is_parameter and self.parts.backward_half(position, value) is half:
                gather = self._gathers.get((value.root, own.part))
                if gather is not None:
                    gather.reader = own.number

    def _send(self) -> None:
        """The last tasks: gradients to the stage before, in the order in which it sends."""
        value_of = self.parts.models.values.value_of
        for name, (_, back_ns) in self.parts.receives.items():
            value = value_of[name]
            self._share(value)
            self.inputs.send(name, "send back", back_ns, self._ready.get(value.root, ()))
