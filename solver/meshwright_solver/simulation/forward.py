"""The forward section of a stage."""

from __future__ import annotations

from meshwright.schema import Redistribution
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.simulation.stage_parts import BEFORE_FORWARD, StageParts
from meshwright_solver.simulation.tasks import Gather, Kind, Need, Section, SectionKind, StreamTask

Needs = tuple[Need, ...]


class ForwardWriter:
    """Writer of the forward section; `write` fills `done` with each op's compute task.

    spread: the section of updated parameters, once a step.
    """

    def __init__(self, parts: StageParts) -> None:
        self.parts = parts
        self.section = Section(SectionKind.F)
        self.spread = Section(SectionKind.SPREAD)
        self.done: dict[int, Need] = {}
        self._made: dict[str, Needs] = {}
        self._shared: dict[str, Needs] = {}
        self._gathers: dict[str, Gather] = {}
        self._spread_to: dict[str, Needs] = {}

    def write(self) -> Section:
        for position in self.parts.order:
            self.section.owner = position
            self._op(position)
        self._send()
        return self.section

    def _op(self, position: int) -> None:
        parts, section = self.parts, self.section
        needs: list[Need] = []
        gathers: list[Gather] = []
        for port, value in enumerate(parts.values_read(position)):
            needs += self._arrival(value, (position, port), gathers)
        if parts.is_receive(position):
            names = self.parts.models.problem.ops[position].op.outputs
            needs += [Need(SectionKind.F, number, -1) for number in self._receive_numbers(names)]
        name, ns = parts.name(position), parts.passes_ns[position][0]
        before, beside, after = parts.own_steps(position, "forward", BEFORE_FORWARD)
        of_own = parts.collectives.of_own
        ready = section.chain(of_own(name, before), needs)
        work = section.add(StreamTask(name, "forward", Kind.COMPUTE, ns), ready)
        round_about = section.chain(of_own(name, beside), ready) if beside else ()
        done = section.chain(of_own(name, after), (work, *round_about))
        for gather in gathers:
            gather.reader = work.number
        self.done[position] = work
        for value in parts.values_made(position):
            self._made[value.root] = done

    def _receive_numbers(self, names: tuple[str, ...]) -> list[int]:
        """Numbers of tensors among the transfers of the previous stage."""
        received = list(self.parts.receives)
        return [received.index(name) for name in names]

    def _arrival(self, value: ProblemValue, reader: Reader, gathers: list[Gather]) -> Needs:
        """Tasks that a reader depends on to have a value in its layout."""
        if value.is_parameter:
            base = self._parameter(value, reader, gathers)
        elif value.root in self._made:
            base = self._read(value)
        else:
            return ()
        moved = self.parts.moves.activations.get((value.root, reader))
        return self._move(moved, base, Kind.ACTIVATION)

    def _read(self, value: ProblemValue) -> Needs:
        root = value.root
        if root not in self._shared:
            moved = self.parts.moves.activations.get((root, None))
            self._shared[root] = self._move(moved, self._made[root], Kind.ACTIVATION)
        return self._shared[root]

    def _parameter(self, value: ProblemValue, reader: Reader, gathers: list[Gather]) -> Needs:
        root = value.root
        if root not in self._spread_to:
            moved = self.parts.moves.spreads.get(root)
            steps = self.parts.collectives.of_steps(
                root, moved.per_step if moved else (), Kind.PARAMETER
            )
            self._spread_to[root] = self.spread.chain(steps, ())
        spread = self._spread_to[root]
        moved = self.parts.moves.gathers.get((root, reader))
        if moved is not None:
            return self._gather(moved, spread, gathers)
        moved = self.parts.moves.gathers.get((root, None))
        if moved is None:
            return spread
        if root not in self._shared:
            new_gathers: list[Gather] = []
            self._shared[root] = self._gather(moved, spread, new_gathers)
            if new_gathers:
                self._gathers[root] = new_gathers[0]
        if root in self._gathers:
            gathers.append(self._gathers[root])
        return self._shared[root]

    def _gather(self, moved: Redistribution, needs: Needs, gathers: list[Gather]) -> Needs:
        first = len(self.section.tasks)
        done = self._move(moved, needs, Kind.PARAMETER)
        if len(self.section.tasks) > first:
            gather = Gather(first, first, gathered_bytes(moved))
            self.section.gathers.append(gather)
            gathers.append(gather)
        return done

    def _move(self, moved: Redistribution | None, needs: Needs, kind: Kind) -> Needs:
        if moved is None:
            return needs
        return self.section.chain(
            self.parts.collectives.of_steps(moved.tensor, moved.forward, kind), needs
        )

    def _send(self) -> None:
        """Add the transfers to the next stage, in the order in which it receives."""
        value_of = self.parts.models.values.value_of
        for name, (there_ns, _) in self.parts.sends.items():
            self.section.send(name, "send", there_ns, self._made[value_of[name].root])


def gathered_bytes(moved: Redistribution) -> int:
    """Bytes of a gathered parameter on one device."""
    return moved.forward[-1].payload_bytes
