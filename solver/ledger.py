"""Ledgers: what an assignment costs, item by item, each under its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

import numpy as np

from meshwright.schema import PlanError
from solver.assignment import Assignment, Codes
from solver.ledger_items import Items, Pair, Way
from solver.lowering import Models
from solver.states import FloatArray
from solver.values import Reader, Value


class Transfer(NamedTuple):
    """A value on its way to a reader; None: to all of its readers together."""

    root: str
    reader: Reader | None
    way: Way


@dataclass(slots=True)
class Ledger:
    """What an assignment costs, item by item, for one step."""

    op_compute_ns: dict[int, float] = field(default_factory=dict)
    op_communication_ns: dict[int, float] = field(default_factory=dict)
    update_ns: dict[str, float] = field(default_factory=dict)
    transfers: list[Transfer] = field(default_factory=list)
    parameter_ns: dict[tuple[str, Reader | None], Pair] = field(default_factory=dict)
    saved_bytes: dict[str, float] = field(default_factory=dict)
    parameter_bytes: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def totals(self) -> FloatArray:
        """ns of compute, activations, gathers, reductions; bytes of values, gradients, optimizer
        state and saved activations."""
        communication = fsum(self.op_communication_ns.values())
        held = np.array(list(self.parameter_bytes.values()), dtype=np.float64).reshape(-1, 3)
        return np.array(
            [
                fsum(self.op_compute_ns.values()) + fsum(self.update_ns.values()),
                communication + fsum(transfer.way.ns for transfer in self.transfers),
                fsum(pair[0] for pair in self.parameter_ns.values()),
                fsum(pair[1] for pair in self.parameter_ns.values()),
                *held.sum(axis=0).tolist(),
                fsum(self.saved_bytes.values()),
            ]
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Ops by position, and values, of an assignment."""

    ops: tuple[int, ...]
    values: tuple[Value, ...]

    @staticmethod
    def all_of(models: Models, assignment: Assignment) -> Share:
        return Share(tuple(assignment.ops), models.values.values)


def ledger_of(models: Models, assignment: Assignment, share: Share | None = None) -> Ledger:
    """The items of an assignment's cost, or of a share of it.

    What a value costs on its way to its readers is the value's. Raises PlanError for layouts that
    do not meet.
    """
    share = share or Share.all_of(models, assignment)
    return _Bookkeeping(models, assignment).ledger(share)


class _Bookkeeping:
    def __init__(self, models: Models, assignment: Assignment) -> None:
        self.models = models
        self.assignment = assignment
        self.items = Items.of(models)
        self.book = Ledger()

    def ledger(self, share: Share) -> Ledger:
        book, model, ops = self.book, self.models.ops.model, self.assignment.ops
        for position in share.ops:
            compute_ns, own_ns = self.items.op(model(position), ops[position])
            book.op_compute_ns[position] = compute_ns
            book.op_communication_ns[position] = own_ns
        for value in share.values:
            if value.is_parameter:
                self._parameter(value)
            elif not value.is_free and value.producer is not None:
                self._value(value, value.producer)
        return book

    def _needed(self, reader: Reader) -> Codes:
        position, port = reader
        model = self.models.ops.model(position)
        return self.items.needed(model, self.assignment.ops[position], port)

    def _value(self, value: Value, producer: Reader) -> None:
        root, book, saving = value.root, self.book, value.saving
        position, port = producer
        model = self.models.ops.model(position)
        made = self.items.made(model, self.assignment.ops[position], port)
        rest = self.assignment.rest.get(root)
        if rest != made:
            raise PlanError(
                f"tensor {root!r} is made in the state {made} but said to rest in {rest}"
            )
        read = self.assignment.read.get(root)
        readers = tuple([(self._needed(reader), reader in saving) for reader in value.readers])
        saved = (value.is_saved, value.saved_by_producer)
        found = self.items.value(self.models.ops.space(root), made, read, readers, saved)
        if found.shared is not None:
            book.transfers.append(Transfer(root, None, found.shared))
        for reader, way in zip(value.readers, found.to_readers, strict=True):
            if way is not None:
                book.transfers.append(Transfer(root, reader, way))
        if found.saved_bytes is not None:
            book.saved_bytes[root] = found.saved_bytes

    def _parameter(self, value: Value) -> None:
        root, book = value.root, self.book
        if not value.readers:
            return
        codes = self.assignment.parameters.get(root)
        if codes is None:
            raise PlanError(f"the plan has no layout for parameter {root!r}")
        model = self.models.parameter(value)
        read = self.assignment.read.get(root)
        needed = [self._needed(reader) for reader in value.readers]
        targets: list[Reader | None] = [*value.readers] if read is None else [None]
        states = tuple(needed) if read is None else (read.codes,)
        found = self.items.parameter(model, codes, states, root)
        book.update_ns[root] = found.update_ns
        book.parameter_bytes[root] = found.bytes
        book.parameter_ns[root, None] = (found.spread_ns, 0.0)
        for target, (gather_ns, reduce_ns) in zip(targets, found.pairs, strict=True):
            before = book.parameter_ns.get((root, target), (0.0, 0.0))
            book.parameter_ns[root, target] = (before[0] + gather_ns, before[1] + reduce_ns)
        if read is None:
            return
        space = self.models.ops.space(root)
        for reader, state in zip(value.readers, needed, strict=True):
            way = self.items.way(space, read.codes, state, False)
            if way is not None:
                book.transfers.append(Transfer(root, reader, way))
