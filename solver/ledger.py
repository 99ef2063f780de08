"""Ledgers: what an assignment costs, item by item, each under its name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import fsum

import numpy as np

from meshwright.schema import PlanError
from solver.assignment import Assignment, Codes
from solver.ledger_items import Items, Pair, ParameterItems, ValueItems
from solver.lowering import Models
from solver.shardable import Reader
from solver.states import FloatArray
from solver.values import Value


@dataclass(slots=True)
class Ledger:
    """What an assignment costs, item by item, for one step.

    ops: by position, ns of compute and of what the op moves by itself. values, parameters: by root.
    working: by an op of each segment, bytes of what that makes again.
    """

    ops: dict[int, Pair] = field(default_factory=dict)
    values: dict[str, ValueItems] = field(default_factory=dict)
    parameters: dict[str, ParameterItems] = field(default_factory=dict)
    working: dict[str, float] = field(default_factory=dict)

    def totals(self) -> FloatArray:
        """ns of compute on devices, activations, gathers, reductions; bytes of values, gradients,
        optimizer state and saved activations."""
        values, parameters = self.values.values(), self.parameters.values()
        ways = [way for own in values for way in (own.shared, *own.to_readers)]
        ways += [way for own in parameters for way in own.to_readers]
        held = np.array([own.bytes[:3] for own in parameters], dtype=np.float64).reshape(-1, 3)
        own_moves_ns = fsum([pair[1] for pair in self.ops.values()])
        return np.array(
            [
                fsum([pair[0] for pair in self.ops.values()])
                + fsum([own.update_ns for own in parameters]),
                own_moves_ns + fsum([way.ns for way in ways if way is not None]),
                fsum([ns for own in parameters for ns in (own.spread_ns, *own.gathers_ns)]),
                fsum([ns for own in parameters for ns in own.reductions_ns]),
                *held.sum(axis=0).tolist(),
                fsum([own.saved_bytes for own in values if own.saved_bytes is not None]),
            ]
        )

    def host_totals(self) -> FloatArray:
        """ns of hosts, of links from them and to them; bytes in a device's share of its host."""
        own = [
            (item.host_ns, item.up_ns, item.down_ns, item.bytes[3])
            for item in self.parameters.values()
        ]
        return np.array([fsum(column) for column in zip(*own, strict=True)] or [0.0] * 4)

    def value_bytes(self, roots: Collection[str]) -> float:
        """Bytes of the values of some parameters, by root."""
        return fsum([self.parameters[root].bytes[0] for root in roots if root in self.parameters])


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
        self.makers: dict[int, str] = {}

    def ledger(self, share: Share) -> Ledger:
        book, items, model, ops = self.book, self.items, self.models.ops.model, self.assignment.ops
        for position in share.ops:
            book.ops[position] = items.op(model(position), ops[position])
        for value in share.values:
            if value.is_parameter:
                if value.readers:
                    book.parameters[value.root] = self._parameter(value)
            elif not value.is_free and value.producer is not None:
                own = book.values[value.root] = self._value(value, value.producer)
                if own.working_bytes:
                    maker = self._maker(value.producer)
                    book.working[maker] = book.working.get(maker, 0.0) + own.working_bytes
        return book

    def _maker(self, producer: Reader) -> str:
        """The first op of the same segment of which that was asked."""
        problem = self.models.problem
        name = problem.ops[producer[0]].name
        return self.makers.setdefault(problem.remade.segment_of[name], name)

    def _needed(self, reader: Reader) -> Codes:
        position, port = reader
        model = self.models.ops.model(position)
        return self.items.needed(model, self.assignment.ops[position], port)

    def _value(self, value: Value, producer: Reader) -> ValueItems:
        root = value.root
        position, port = producer
        model = self.models.ops.model(position)
        made = self.items.made(model, self.assignment.ops[position], port)
        rest = self.assignment.rest.get(root)
        if rest != made:
            raise PlanError(
                f"tensor {root!r} is made in the state {made} but said to rest in {rest}"
            )
        read = self.assignment.read.get(root)
        readers = tuple([(self._needed(reader), reader in value.again) for reader in value.readers])
        return self.items.value(self.models.ops.space(root), made, read, readers, value.kept)

    def _parameter(self, value: Value) -> ParameterItems:
        root = value.root
        codes = self.assignment.parameters.get(root)
        if codes is None:
            raise PlanError(f"the plan has no layout for parameter {root!r}")
        read = self.assignment.read.get(root)
        needed = tuple([self._needed(reader) for reader in value.readers])
        model = self.models.parameter(value)
        shared = read.codes if read is not None else None
        lookup = None
        if model.is_table and value.readers[0][0] in self.assignment.ops:
            position = value.readers[0][0]
            lookup = self.models.ops.model(position), self.assignment.ops[position]
        return self.items.parameter(model, codes, shared, needed, lookup, root)
