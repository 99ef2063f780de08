"""Holdings: lifetimes of tensors on the fullest device, for one microbatch.

Of a value

    at rest      from its op to its last reader, or to its redistribution to all readers
    as read      a copy in another layout: during its readers
    saved        from its op to the last gradient that needs it
    recomputed   from recomputation to the last gradient that needs it
    gradient     from the first backward of a reader to the backward of its op; later readers
                 accumulate into it

Intermediate tensors of a redistribution are held at its reader.

Of a parameter: its gathered value from the first to the last reader, in the forward and again in
the backward pass; its gradient until it is reduced or accumulated. A sum forwards its gradient to
its summands without allocating another (PyTorch's AddBackward).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from meshwright.schema import DTYPE_BYTES
from meshwright_solver.common.identity_keys import IdentityKey
from meshwright_solver.common.row_templates import Stamps
from meshwright_solver.evaluation.accounting.assignment import Assignment
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare, Ledger
from meshwright_solver.evaluation.accounting.ledger_items import (
    Gathered,
    ParameterItems,
    RedistributionItem,
    ValueItems,
)
from meshwright_solver.evaluation.memory.event_order import EventOrder, OpEvent
from meshwright_solver.evaluation.memory.gradients import Gradients
from meshwright_solver.evaluation.memory.holding_tables import (
    POSITIONS,
    WIDTH,
    HoldingKind,
    Holdings,
    HoldingTable,
)
from meshwright_solver.evaluation.memory.kernel_workspace import inside_backward, inside_forward
from meshwright_solver.layouts.redistribution import Path
from meshwright_solver.layouts.redistribution_memory import between_bytes
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.offload import GRADIENT, TABLE
from meshwright_solver.strategies.parameter_model import ParameterModel

Codes = tuple[int, ...]


def holdings_of(
    models: Models,
    assignment: Assignment,
    ledger: Ledger,
    share: AssignmentShare,
    order: EventOrder,
) -> Holdings:
    """Holdings of a share of an assignment. order: of all its ops."""
    writer = _HoldingsWriter(models, assignment, ledger, order)
    for position in share.ops:
        writer.op(position)
    of_ops = np.array(writer.rows, dtype=np.int64).reshape(-1, WIDTH)
    for value in share.values:
        items = ledger.values.get(value.root)
        parameter = ledger.parameters.get(value.root)
        if items is not None and value.producer is not None:
            writer.add_value(value, items, value.producer[0])
        elif parameter is not None:
            writer.add_parameter(value, parameter)
    return Holdings.of(np.concatenate([of_ops, writer.stamps.written()[0]]))


class _HoldingsWriter:
    def __init__(
        self, models: Models, assignment: Assignment, ledger: Ledger, order: EventOrder
    ) -> None:
        self.models = models
        self.key_of = models.key_of
        self.problem = models.problem
        self.assignment = assignment
        self.ledger = ledger
        self.order = order
        self.rows: list[tuple[int, ...]] = []
        self.stamps = Stamps(WIDTH, POSITIONS)
        self.gradients = Gradients(models, order, assignment.ops)
        self._does_again = bool((order.at[OpEvent.AGAIN] >= 0).any())
        self._local: dict[tuple[IdentityKey, tuple[int, ...]], int] = {}

    # --- contents --------------------------------------------------------------------------------

    def add_value(self, value: ProblemValue, items: ValueItems, producer: int) -> None:
        positions = [producer, *[position for position, _ in value.readers]]
        content = (
            self.key_of(items),
            self.key_of(self.models.ops.model(producer)),
            not self.problem.sent.isdisjoint(value.slot_of),
            self.problem.ops[producer].op.kind == RECEIVE,
            self.gradients.is_counted_with(value),
            self._look(value, positions),
        )

        def write() -> list[tuple[int, ...]]:
            self.rows = []
            self.value(value, items, producer)
            return self.rows

        self.stamps.add(content, positions, write)

    def add_parameter(self, value: ProblemValue, items: ParameterItems) -> None:
        positions = [position for position, _ in value.readers]
        model = self.models.parameter(value)
        content = self.key_of(items), self.key_of(model), self._look(value, positions)

        def write() -> list[tuple[int, ...]]:
            self.rows = []
            self.parameter(value, items)
            return self.rows

        self.stamps.add(content, positions, write)

    def _look(self, value: ProblemValue, positions: Sequence[int]) -> Hashable:
        """Models of the readers, and the order of all events of ops at these positions.

        Without recomputation the order of events is the order of the positions.
        """
        model, key_of = self.models.ops.model, self.key_of
        readers = tuple([(key_of(model(position)), port) for position, port in value.readers])
        if self._does_again:
            events = (OpEvent.AGAIN, OpEvent.INPUTS, OpEvent.WEIGHTS)
            places = [
                self.order.place(event, position) for position in positions for event in events
            ]
            ranks = {place: rank for rank, place in enumerate(sorted({*places, -1}))}
            return readers, tuple([ranks[place] for place in places])
        if len({*positions}) < len(positions):
            return readers, tuple([positions.index(position) for position in positions])
        return readers

    def op(self, position: int) -> None:
        """Kernel workspace of an op."""
        self._scratch(position)
        op = self.problem.ops[position]
        forward, backward = inside_forward(op.op.kind), inside_backward(op.op.kind)
        model = self.models.ops.model(position)
        if not (forward or backward) or model.inputs[0].space is None:
            return
        row = np.array([self.assignment.ops[position]])
        size = round(float(model.inputs[0].space.local_bytes(model.required(row, 0))[0]))
        self._hold((OpEvent.FORWARD, position), None, forward * size)
        if model.runs_backward and self.problem.training:
            self._hold((OpEvent.INPUTS, position), None, backward * size)

    def _scratch(self, position: int) -> None:
        """Scratch memory of the rule of an op, in every forward execution."""
        known, model = self.problem.ops[position].known, self.models.ops.model(position)
        if known is None or known.rule.working_bytes is None:
            return
        sizes = self.problem.ops[position].local_sizes(
            model.ways_of_parts(self.assignment.ops[position])
        )
        size = known.rule.working_byte_count(sizes)
        for event in (OpEvent.FORWARD, OpEvent.AGAIN):
            if self.order.place(event, position) >= 0:
                self._hold((event, position), None, size)

    # --- values ----------------------------------------------------------------------------------

    def value(self, value: ProblemValue, items: ValueItems, producer: int) -> None:
        space = self.models.ops.space(value.root)
        rest = self._bytes(space, items.rest)
        is_sent = not self.problem.sent.isdisjoint(value.slot_of)
        self._forward(value, items, producer, is_sent=is_sent)
        if not self.problem.training:
            return
        self._hold_for_backward(value, items, producer)
        if self.problem.tensors[value.root].has_gradient:
            self._gradient(value, items, producer, is_sent=is_sent)
        if self.problem.microbatches > 1:
            is_received = self.problem.ops[producer].op.kind == RECEIVE
            size = rest * (int(is_received) + int(is_sent))
            self.rows.append((HoldingTable.BUFFERS, 0, producer, 0, producer, size, 0))

    def _forward(
        self, value: ProblemValue, items: ValueItems, producer: int, *, is_sent: bool
    ) -> None:
        space, backward_need = self.models.ops.space(value.root), value.kept
        rest = self._bytes(space, items.rest)
        readers = [position for position, _ in value.readers] or [producer]
        copy = self._after(space, items.shared and items.shared.forward)
        ways = [self._after(space, way and way.forward) for way in items.to_readers]
        if items.read is None:
            is_copy_saved = backward_need.again and not backward_need.is_held and any(ways)
        else:
            is_copy_saved = (
                backward_need.again and items.read.codes != items.rest and not items.read.again
            )
        is_rest_saved = backward_need.is_held or (
            backward_need.wanted and not backward_need.is_remade and not is_copy_saved
        )
        # what is saved in fewer bits is another copy
        is_same_copy = is_rest_saved and space.saved_share == 1.0
        if not is_same_copy or is_sent:
            last = (OpEvent.FORWARD, min(readers) if copy and not is_sent else max(readers))
            last = (OpEvent.SENT, producer) if is_sent else last
            size = 0 if is_same_copy else rest
            self._hold((OpEvent.FORWARD, producer), last, size)
        if copy and not is_copy_saved:
            self._hold((OpEvent.FORWARD, min(readers)), (OpEvent.FORWARD, max(readers)), copy)
        self._hold(
            (OpEvent.FORWARD, min(readers)), None, self._between(space, items.shared, forward=True)
        )
        for position, size, way in zip(readers, ways, items.to_readers, strict=False):
            is_saved = items.read is None and is_copy_saved
            between = self._between(space, way, forward=True)
            self._hold((OpEvent.FORWARD, position), None, between + (0 if is_saved else size))

    def _hold_for_backward(self, value: ProblemValue, items: ValueItems, producer: int) -> None:
        """Saved and recomputed values, and repeated redistributions in the backward pass."""
        saved, working = round(items.saved_bytes or 0.0), round(items.working_bytes)
        needs = self._needs(value, producer)
        if not needs:
            return
        last = max(needs, key=self._place)
        self._hold((OpEvent.FORWARD, producer), last, saved, HoldingKind.SAVED)
        self._hold((OpEvent.AGAIN, producer), last, working, HoldingKind.RECOMPUTED)
        again = [event for reader in value.again for event in self._again(value, reader)]
        space = self.models.ops.space(value.root)
        if again and items.read is not None and items.read.again and not value.is_remade:
            copy = self._after(space, items.shared and items.shared.forward)
            first = min(again, key=self._place)
            self._hold(first, max(again, key=self._place), copy)
            self._hold(first, None, self._between(space, items.shared, forward=True))
        for reader, way in zip(value.readers, items.to_readers, strict=False):
            if way is not None and way.again:
                size = self._after(space, way.forward) + self._between(space, way, forward=True)
                for event in self._again(value, reader) if reader in value.again else ():
                    self._hold(event, None, size)

    def _needs(self, value: ProblemValue, producer: int) -> list[tuple[OpEvent, int]]:
        """Events of the backward pass that need a value."""
        needs = [event for reader in value.again for event in self._again(value, reader)]
        if value.saved_by_producer:
            needs.append((self.gradients.last_half(producer, of_inputs=True), producer))
        return needs

    def _again(self, value: ProblemValue, reader: Reader) -> list[tuple[OpEvent, int]]:
        """Backward events in which a reader needs a value."""
        position, _ = reader
        events = []
        if self.order.place(OpEvent.AGAIN, position) >= 0:
            events.append((OpEvent.AGAIN, position))
        if reader in value.saving:
            events.append((self.gradients.last_half(position), position))
        return events

    def _gradient(
        self, value: ProblemValue, items: ValueItems, producer: int, *, is_sent: bool
    ) -> None:
        space = self.models.ops.space(value.root)
        rest = self._bytes(space, items.rest)
        shared = self._before(space, items.shared and items.shared.backward)
        readers = self.gradients.with_gradient(value)
        end = (self.gradients.last_half(producer), producer)
        if is_sent:
            self._hold((OpEvent.GIVEN, producer), end, rest)
        if not readers:
            return
        events = [(self.gradients.first_half(position), position) for position, _ in readers]
        ways = dict(zip(value.readers, items.to_readers, strict=False))
        gradient_bytes = [
            self._before(space, way.backward) if (way := ways.get(reader)) is not None else 0
            for reader in readers
        ]
        for number, (event, moved) in enumerate(zip(events, gradient_bytes, strict=True)):
            is_first = number == 0 and not is_sent
            between = self._between(space, ways.get(readers[number]), forward=False)
            self._hold(event, None, between + (moved if is_first else moved or shared or rest))
        first = events[0]
        if not is_sent and not gradient_bytes[0] and self.gradients.is_passed_on(readers[0], value):
            if len(events) > 1:
                self._pass_on(value, readers[0][0], events[1], shared or rest)
                first = events[1]
            else:
                self._pass_on(value, readers[0][0], end, rest)
                return
        if shared:
            self._hold(first, events[-1], shared)
            self._hold(events[-1], None, self._between(space, items.shared, forward=False))
            first = events[-1]
        if not is_sent:
            self._hold(first, end, rest)

    def _pass_on(
        self, value: ProblemValue, adder: int, until: tuple[OpEvent, int], size: int
    ) -> None:
        """Gradient of a sum, counted with the summand that needs it longest."""
        if self.gradients.longest(adder) is not value:
            return
        mine = self._place(until)
        after = (OpEvent.PASSED, adder)
        if self._place(after) <= mine:
            self._hold(after, until, size)

    # --- parameters ------------------------------------------------------------------------------

    def parameter(self, value: ProblemValue, items: ParameterItems) -> None:
        model = self.models.parameter(value)
        place = self._place_of(model, items.codes)
        if place == TABLE:
            return  # only looked-up rows move
        if items.rows is not None:
            self._rows(value, items.rows)
            return
        readers = [position for position, _ in value.readers]
        served = (
            [readers] if self.models.reads_shared(value) else [[position] for position in readers]
        )
        for target, positions in zip(items.targets, served, strict=True):
            read, gradient, is_moved, is_reduced = self._reader_states(model, items.codes, target)
            if is_moved:
                self._gather(positions, self._bytes(model.space, read), trained=model.trained)
            if model.trained and self.problem.training:
                size = self._bytes(model.gradient_moves.space, gradient)
                events = self._weights(positions)
                if events and (is_reduced or place == GRADIENT):
                    self.rows.append((HoldingTable.UNREDUCED, *events[0], *events[-1], size, 0))
                elif self._is_added(model.dtype):
                    size = self._bytes(model.space, gradient)
                    for event in events:
                        self._hold(event, None, size, HoldingKind.GATHERED)
        for (position, _), way in zip(value.readers, items.to_readers, strict=False):
            if way is not None:
                self._to_reader(model, position, way)

    def _rows(self, value: ProblemValue, rows: Gathered) -> None:
        """Sparse gradient rows of a microbatch, until they are appended to those of other
        microbatches."""
        if self.problem.microbatches > 1:
            for event in self._weights([position for position, _ in value.readers]):
                self._hold(event, None, round(rows.made_bytes), HoldingKind.GATHERED)

    def _to_reader(self, model: ParameterModel, position: int, way: RedistributionItem) -> None:
        """Copy of a parameter in another layout than the one that its readers share."""
        copy = self._after(model.space, way.forward)
        copy += self._between(model.space, way, forward=True)
        self._hold((OpEvent.FORWARD, position), None, copy, HoldingKind.GATHERED)
        if not self.problem.training or not self.models.ops.model(position).runs_backward:
            return
        if self.models.ops.model(position).weights_share < 1:
            self._hold((OpEvent.INPUTS, position), None, copy, HoldingKind.GATHERED)
        if model.trained:
            gradient_bytes = self._before(model.space, way.backward)
            gradient_bytes += self._between(model.space, way, forward=False)
            self._hold(
                (self.gradients.last_half(position), position),
                None,
                gradient_bytes,
                HoldingKind.GATHERED,
            )

    def _place_of(self, model: ParameterModel, codes: Codes) -> int:
        return self.models.shared(
            ("place", self.key_of(model), codes),
            lambda: (int(model.place(np.array([codes]))[0]),),
        )[0]

    def _reader_states(
        self, model: ParameterModel, codes: Codes, target: Codes
    ) -> tuple[Codes, Codes, bool, bool]:
        """State of a parameter at its reader, state of its gradient there, and whether each is
        moved."""

        def states() -> tuple[Codes, Codes, bool, bool]:
            state, needed = np.array([codes]), np.array([target])
            read = tuple(model.read_value(needed)[0].tolist())
            is_moved = read != tuple(model.value(state)[0].tolist())
            if not model.trained or not self.problem.training:
                return read, (), is_moved, False
            gradient = tuple(model.left_gradient(needed)[0].tolist())
            return read, gradient, is_moved, model.is_reduced_often(state, needed)

        return self.models.shared(("served", self.key_of(model), codes, target), states)

    def _is_added(self, dtype: str) -> bool:
        """Whether the gradient of a microbatch is a separate tensor before accumulation."""
        setup = self.problem.setup
        widens = DTYPE_BYTES[setup.gradient_dtype] != DTYPE_BYTES[dtype]
        return self.problem.microbatches > 1 or widens

    def _gather(self, positions: Sequence[int], size: int, *, trained: bool) -> None:
        first, last = min(positions), max(positions)
        self.rows.append(
            (HoldingTable.GATHERS, OpEvent.FORWARD, first, OpEvent.FORWARD, last, size, 0)
        )
        if not trained or not self.problem.training:
            return
        models = {p: self.models.ops.model(p) for p in positions}
        run = [p for p, model in models.items() if model.runs_backward and model.weights_share < 1]
        events = [(OpEvent.INPUTS, p) for p in run]
        events += [(OpEvent.AGAIN, p) for p in positions if self.order.place(OpEvent.AGAIN, p) >= 0]
        if events:
            begin, end = min(events, key=self._place), max(events, key=self._place)
            self.rows.append((HoldingTable.GATHERS, *begin, *end, size, 0))

    def _weights(self, positions: Sequence[int]) -> list[tuple[OpEvent, int]]:
        """Events that produce gradients of a parameter, in order."""
        run = [position for position in positions if self.models.ops.model(position).runs_backward]
        return sorted(
            [(self.gradients.last_half(position), position) for position in run], key=self._place
        )

    # --- rows ------------------------------------------------------------------------------------

    def _hold(
        self,
        first: tuple[OpEvent, int],
        last: tuple[OpEvent, int] | None,
        size: int,
        what: HoldingKind = HoldingKind.WORKING,
    ) -> None:
        """Append a row. last: None for the same event."""
        if size:
            self.rows.append((HoldingTable.ROWS, *first, *(last or first), size, what))

    def _place(self, event: tuple[OpEvent, int]) -> int:
        return self.order.place(*event)

    def _bytes(self, space: StateSpace, codes: tuple[int, ...]) -> int:
        key = self.key_of(space), codes
        byte_count = self._local.get(key)
        if byte_count is None:
            byte_count = self._local[key] = round(float(space.local_bytes(np.array([codes]))[0]))
        return byte_count

    def _after(self, space: StateSpace, path: Path | None) -> int:
        """Bytes at the target of a path; 0 if nothing moves."""
        return self._bytes(space, path[-1].after.codes) if path else 0

    def _before(self, space: StateSpace, path: Path | None) -> int:
        """Bytes at the source of a path; 0 if nothing moves."""
        return self._bytes(space, path[0].before.codes) if path else 0

    def _between(self, space: StateSpace, way: RedistributionItem | None, *, forward: bool) -> int:
        """Bytes of intermediate tensors of a redistribution."""
        if way is None:
            return 0
        return between_bytes(
            way.forward if forward else way.backward, lambda codes: self._bytes(space, codes)
        )
