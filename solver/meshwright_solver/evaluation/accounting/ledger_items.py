"""Ledger items, computed once per content: ops by strategy, values by layouts.

Repeated layers consist of few distinct contents. The content of an op is its model and its
strategy. The content of a value is its state space and its states. Names occur in errors only.
Spaces and models are compared by identity, because `OpModels` and `Models` keep one object per
content.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from meshwright.schema import PlanError
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.assignment import Codes, Read
from meshwright_solver.layouts.redistribution import WHOLE, Counted, Path
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.lowering.read_states import (
    ReadStates,
    saved_as_read_bytes,
    saved_bytes,
    working_bytes,
)
from meshwright_solver.problem.values import BackwardNeed
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_collectives import own_moves_ns
from meshwright_solver.strategies.op_model import OpModel
from meshwright_solver.strategies.parameter_model import ParameterModel
from meshwright_solver.strategies.parameter_owners import Dealt

Pair = tuple[float, float]


class RedistributionItem(NamedTuple):
    """Redistribution: its paths per microbatch, and ns per step.

    again: whether the forward path runs again in the backward pass. hidden_ns: the part of `ns`
    that the objective leaves out.
    """

    forward: Path
    backward: Path
    again: bool
    ns: float
    hidden_ns: float = 0.0


class ValueItems(NamedTuple):
    """Value in its layout at rest and its read layout, and the redistributions between.

    shared: from the producer to the layout that readers share. to_readers: from there to each
    reader; None if nothing moves. saved_bytes: None if nothing is saved. working_bytes: recomputed
    values, held until the gradients of their segment are complete.
    """

    rest: Codes
    read: Read | None
    shared: RedistributionItem | None
    to_readers: tuple[RedistributionItem | None, ...]
    saved_bytes: float | None
    working_bytes: float = 0.0


class Gathered(NamedTuple):
    """Sparse gradient: ids and rows of all members, gathered over axes once per step.

    made_bytes: of one microbatch on a device. payload_bytes: of all members.
    """

    axes: tuple[int, ...]
    made_bytes: float
    payload_bytes: float
    ns: float


class ParameterBytes(NamedTuple):
    """Bytes at rest of a parameter on a device, and in the share of the device in host memory."""

    value: float
    gradient: float
    optimizer: float
    host: float


class ParameterItems(NamedTuple):
    """Parameter in a state.

    targets: states that it is gathered to and its gradient is reduced from: the state that readers
    share, or one per reader. gathers_ns, reductions_ns: per step, by target. reductions_once_ns:
    the part of the reductions that occurs once a step. to_readers: redistributions from the shared
    state; None if nothing moves. host_ns, up_ns, down_ns: per step, of hosts and of the links from
    and to them. rows: of a sparse gradient. dealt: ownership of the optimizer state by one device
    of a group; bytes are then the mean.
    """

    codes: Codes
    targets: tuple[Codes, ...]
    update_ns: float
    spread_ns: float
    bytes: ParameterBytes
    gathers_ns: tuple[float, ...]
    reductions_ns: tuple[float, ...]
    reductions_once_ns: tuple[float, ...]
    to_readers: tuple[RedistributionItem | None, ...]
    host_ns: float
    up_ns: float
    down_ns: float
    rows: Gathered | None = None
    dealt: Dealt | None = None


@dataclass(slots=True)
class Items:
    """Ledger items of one problem on one mesh."""

    models: Models
    _ops: dict[Hashable, Pair] = field(default_factory=dict)
    _states: dict[Hashable, Codes] = field(default_factory=dict)
    _ways: dict[Hashable, RedistributionItem] = field(default_factory=dict)
    _values: dict[Hashable, ValueItems] = field(default_factory=dict)
    _parameters: dict[Hashable, ParameterItems] = field(default_factory=dict)

    @staticmethod
    def of(models: Models) -> Items:
        """The single instance for these models."""
        return models.shared("items", lambda: Items(models))

    def op(self, model: OpModel, codes: Codes) -> Pair:
        """ns of compute, and of the collectives inside the op."""
        key = (self.models.key_of(model), codes)
        pair = self._ops.get(key)
        if pair is None:
            models, row = self.models, np.array([codes])
            count = models.problem.microbatches
            pair = self._ops[key] = (
                count * float(models.compute_ns(model, row)[0]),
                count * float(own_moves_ns(model, row, models.interconnect)[0]),
            )
        return pair

    def needed(self, model: OpModel, codes: Codes, port: int) -> Codes:
        """State that a strategy requires of an input."""
        key = (self.models.key_of(model), codes, port)
        state = self._states.get(key)
        if state is None:
            row = model.required(np.array([codes]), port)[0]
            state = self._states[key] = tuple(row.tolist())
        return state

    def made(self, model: OpModel, codes: Codes, port: int) -> Codes:
        """State that a strategy produces for an output."""
        key = (self.models.key_of(model), codes, -1 - port)
        state = self._states.get(key)
        if state is None:
            row = model.made(np.array([codes]), port)[0]
            state = self._states[key] = tuple(row.tolist())
        return state

    def way(
        self,
        space: StateSpace,
        source: Codes,
        target: Codes,
        again: bool,
        counted: Counted = WHOLE,
    ) -> RedistributionItem | None:
        """Redistribution between two states; None if they are equal."""
        if source == target:
            return None
        key = (self.models.key_of(space), source, target, again, counted)
        item = self._ways.get(key)
        if item is None:
            moves = self.models.redistributions(space)
            a, b = (space.index(np.array([codes])) for codes in (source, target))
            ns = float(moves.total_ns(a, b)[0])
            ns += float(moves.forward_ns(a, b)[0]) if again else 0.0
            hidden_ns = 0.0
            if counted != WHOLE:
                hidden_ns = ns - float(moves.total_ns(a, b, counted)[0])
                hidden_ns -= float(moves.forward_ns(a, b)[0]) * counted.forward if again else 0.0
            item = self._ways[key] = RedistributionItem(
                moves.forward_path(int(a[0]), int(b[0])),
                moves.backward_path(int(a[0]), int(b[0])),
                again,
                ns * self.models.problem.microbatches,
                hidden_ns * self.models.problem.microbatches,
            )
        return item

    def value(
        self,
        space: StateSpace,
        rest: Codes,
        read: Read | None,
        readers: tuple[tuple[Codes, bool], ...],
        backward_need: BackwardNeed,
        counted: Counted,
    ) -> ValueItems:
        """Items of a value.

        readers: the state that each reader needs, and whether it needs the value again in the
        backward pass.
        """
        key = (
            self.models.key_of(space),
            rest,
            read and (read.codes, read.again),
            readers,
            backward_need,
            counted,
        )
        items = self._values.get(key)
        if items is None:
            if read is None:
                items = self._value_as_made(space, rest, readers, backward_need, counted)
            else:
                items = self._value_as_read(space, rest, read, readers, backward_need, counted)
            self._values[key] = items
        return items

    def _value_as_made(
        self,
        space: StateSpace,
        rest: Codes,
        readers: tuple[tuple[Codes, bool], ...],
        backward_need: BackwardNeed,
        counted: Counted,
    ) -> ValueItems:
        saved: float | None = None
        for needed, _ in readers if backward_need.again else ():
            moves = self.models.redistributions(space)
            copy = saved_as_read_bytes(
                moves, np.array([rest]), np.array([needed]), backward_need.is_at_hand
            )
            saved = float(copy[0, 0])
        if backward_need.is_held:
            saved = (saved or 0.0) + _local(space, rest)
        working = _local(space, rest) if backward_need.is_remade and backward_need.at_rest else 0.0
        ways = tuple([self.way(space, rest, needed, False, counted) for needed, _ in readers])
        return ValueItems(rest, None, None, ways, saved, working)

    def _value_as_read(
        self,
        space: StateSpace,
        rest: Codes,
        read: Read,
        readers: tuple[tuple[Codes, bool], ...],
        backward_need: BackwardNeed,
        counted: Counted,
    ) -> ValueItems:
        moves, row = self.models.redistributions(space), np.array([rest])
        states = ReadStates(np.array([read.codes]), np.array([read.again]))
        saved: float | None = None
        if backward_need.again:
            saved = float(saved_bytes(moves, row, states, backward_need.is_at_hand)[0, 0])
        if backward_need.is_held:
            saved = (saved or 0.0) + _local(space, rest)
        working = _local(space, rest) if backward_need.is_remade and backward_need.at_rest else 0.0
        if backward_need.is_remade and backward_need.as_read:
            working += float(working_bytes(moves, row, states, backward_need.at_rest)[0, 0])
        shared = self.way(space, rest, read.codes, read.again, counted)
        ways = tuple(
            [self.way(space, read.codes, needed, again, counted) for needed, again in readers]
        )
        return ValueItems(rest, read, shared, ways, saved, working)

    def parameter(
        self,
        model: ParameterModel,
        codes: Codes,
        read: Codes | None,
        needed: tuple[Codes, ...],
        lookup: tuple[OpModel, Codes] | None,
        name: str,
    ) -> ParameterItems:
        """Items of a parameter.

        read: the state that readers share. needed: the state that each reader needs. lookup: the op
        that looks up rows of a table, with its strategy.

        Raises PlanError, with the name of the parameter, if its state at rest is coarser than a
        read state.
        """
        key = (
            self.models.key_of(model),
            codes,
            read,
            needed,
            lookup and (self.models.key_of(lookup[0]), lookup[1]),
        )
        items = self._parameters.get(key)
        if items is None:
            targets = needed if read is None else (read,)
            pairs = [self._target(model, codes, target, name) for target in targets]
            states = np.array([codes])
            value, gradient, optimizer = (float(column[0]) for column in model.memory_bytes(states))
            on_host = float(model.host_bytes(states)[0])
            host_ns, up_ns, down_ns = self._host_times(model, states, lookup)
            update_ns = float(model.update_ns(states)[0])
            reductions_ns = tuple([reduce_ns for _, reduce_ns, _ in pairs])
            reductions_once_ns = tuple([once_ns for _, _, once_ns in pairs])
            rows = None
            if lookup is not None and model.is_sparse(states)[0]:
                rows, update_ns = self._rows(model, states, targets[0], lookup)
                gradient, reductions_ns = rows.payload_bytes, (rows.ns,)
                reductions_once_ns = reductions_ns
            items = self._parameters[key] = ParameterItems(
                codes=codes,
                targets=targets,
                update_ns=update_ns,
                spread_ns=float(model.spread_ns(states)[0]),
                bytes=ParameterBytes(value, gradient, optimizer, on_host),
                gathers_ns=tuple([gather_ns for gather_ns, _, _ in pairs]),
                reductions_ns=reductions_ns,
                reductions_once_ns=reductions_once_ns,
                to_readers=()
                if read is None
                else tuple([self.way(model.space, read, state, False) for state in needed]),
                host_ns=host_ns,
                up_ns=up_ns,
                down_ns=down_ns,
                rows=rows,
                dealt=_owned_state(model, states, gradient, optimizer),
            )
        return items

    def _rows(
        self, model: ParameterModel, states: IntArray, target: Codes, lookup: tuple[OpModel, Codes]
    ) -> tuple[Gathered, float]:
        """Sparse gradient, and ns of its row updates per step."""
        reader, strategy = lookup
        looked_up = reader.looked_up_bytes(np.array([strategy])) / model.element_bytes.value
        gradients = model.row_gradients(np.array([target]), looked_up)
        axes = tuple([a for a, code in enumerate(target) if code == model.space.slots + 2])
        made_bytes, payload_bytes, ns = (
            float(column[0])
            for column in (gradients.made_bytes, gradients.held_bytes, gradients.gather_ns)
        )
        return Gathered(axes, made_bytes, payload_bytes, ns), float(
            model.row_update_ns(states, gradients)[0, 0]
        )

    def _host_times(
        self, model: ParameterModel, states: IntArray, lookup: tuple[OpModel, Codes] | None
    ) -> tuple[float, float, float]:
        """ns per step: work on the host, up, down."""
        once = model.host_times(states)
        times_ns = [float(column[0]) for column in (once.work, once.up, once.down)]
        if lookup is not None:
            reader, strategy = lookup
            looked_up = reader.looked_up_bytes(np.array([strategy])) / model.element_bytes.value
            rows = model.lookup_times(states, looked_up)
            parts = (rows.work, rows.up, rows.down)
            times_ns = [a + float(b[0, 0]) for a, b in zip(times_ns, parts, strict=True)]
        return times_ns[0], times_ns[1], times_ns[2]

    def _target(
        self, model: ParameterModel, codes: Codes, target: Codes, name: str
    ) -> tuple[float, float, float]:
        """ns per step of gathers, of reductions, and of the reductions that occur once."""
        states, needed = np.array([codes]), np.array([target])
        count = self.models.problem.rounds
        gathers = 2 if model.trained else 1
        gather = float(model.gather_ns(states, needed)[0, 0]) * gathers * count
        often, once = model.reduce_ns(states, needed)
        if bool(model.not_on_host(states, needed)[0, 0]):
            raise PlanError(
                f"parameter {name!r} cannot be offloaded to hosts in the state {codes}: its reader "
                f"needs the state {target}"
            )
        if bool(model.not_in_rows(states, needed)[0, 0]):
            raise PlanError(
                f"parameter {name!r} has a sparse gradient and rests in the state {codes}, but its "
                f"reader needs the state {target}; use the same state for both"
            )
        if not np.isfinite(gather + float(often[0, 0]) + float(once[0, 0])):
            raise PlanError(
                f"parameter {name!r} rests in the state {codes}, which is coarser than the "
                f"state {target} that its reader needs"
            )
        once_ns = float(once[0, 0])
        return gather, float(often[0, 0]) * count + once_ns, once_ns


def _owned_state(
    model: ParameterModel, states: IntArray, gradient: float, optimizer: float
) -> Dealt | None:
    """Owned state of a parameter; None without an owner. gradient, optimizer: mean bytes per
    device."""
    has_gradient = bool(model.deals_gradient(states)[0])
    mean_bytes = optimizer + (gradient if has_gradient else 0.0)
    axes = np.flatnonzero(model.dealt_axes(states)[0]).tolist()
    if not axes:
        return None
    ways = prod([model.space.axis_sizes[axis] for axis in axes])
    return Dealt(tuple(axes), round(mean_bytes * ways), model.space.axis_sizes, has_gradient)


def _local(space: StateSpace, codes: Codes) -> float:
    return float(space.local_bytes(np.array([codes]))[0])
