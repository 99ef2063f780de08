"""Ledgers: the itemized cost of an assignment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

import numpy as np

from meshwright.schema import PlanError
from meshwright_solver.evaluation.accounting.assignment import Assignment, Codes
from meshwright_solver.evaluation.accounting.ledger_items import (
    Items,
    Pair,
    ParameterItems,
    ValueItems,
)
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models


class LedgerTotals(NamedTuple):
    """Sums of a ledger for one step.

    Times are of compute on devices, of communication by kind, of the part of activations that the
    objective leaves out (hidden), of the parts of gathers and reductions that occur once a step, of
    hosts, and of the links from hosts
    (up) and to them (down). Bytes are on one device, of values, gradients, optimizer state and
    saved activations, and in the share of the device in host memory.
    """

    compute_ns: float = 0.0
    activation_ns: float = 0.0
    hidden_ns: float = 0.0
    gather_ns: float = 0.0
    reduction_ns: float = 0.0
    gather_once_ns: float = 0.0
    reduction_once_ns: float = 0.0
    host_ns: float = 0.0
    host_up_ns: float = 0.0
    host_down_ns: float = 0.0
    value_bytes: float = 0.0
    gradient_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    saved_bytes: float = 0.0
    host_bytes: float = 0.0

    def plus(self, other: LedgerTotals, times: int) -> LedgerTotals:
        """Sum of these totals and `times` times the other totals."""
        return LedgerTotals(*[a + times * b for a, b in zip(self, other, strict=True)])


@dataclass(slots=True)
class Ledger:
    """Itemized cost of an assignment for one step.

    ops: by position, ns of compute and of the collectives inside the op. values, parameters: by
    root. working: bytes of recomputed values, by an op of each recompute segment.
    """

    ops: dict[int, Pair] = field(default_factory=dict)
    values: dict[str, ValueItems] = field(default_factory=dict)
    parameters: dict[str, ParameterItems] = field(default_factory=dict)
    working: dict[str, float] = field(default_factory=dict)

    def totals(self) -> LedgerTotals:
        values, parameters = self.values.values(), self.parameters.values()
        ways = [way for value in values for way in (value.shared, *value.to_readers)]
        ways += [way for parameter in parameters for way in parameter.to_readers]
        held = np.array([item.bytes[:3] for item in parameters], dtype=np.float64).reshape(-1, 3)
        value_bytes, gradient_bytes, optimizer_bytes = held.sum(axis=0).tolist()
        own_moves_ns = fsum([pair[1] for pair in self.ops.values()])
        return LedgerTotals(
            compute_ns=fsum([pair[0] for pair in self.ops.values()])
            + fsum([item.update_ns for item in parameters]),
            activation_ns=own_moves_ns + fsum([way.ns for way in ways if way is not None]),
            hidden_ns=fsum([way.hidden_ns for way in ways if way is not None]),
            gather_ns=fsum(
                [ns for item in parameters for ns in (item.spread_ns, *item.gathers_ns)]
            ),
            reduction_ns=fsum([ns for item in parameters for ns in item.reductions_ns]),
            gather_once_ns=fsum([item.spread_ns for item in parameters]),
            reduction_once_ns=fsum([ns for item in parameters for ns in item.reductions_once_ns]),
            host_ns=fsum([item.host_ns for item in parameters]),
            host_up_ns=fsum([item.up_ns for item in parameters]),
            host_down_ns=fsum([item.down_ns for item in parameters]),
            value_bytes=value_bytes,
            gradient_bytes=gradient_bytes,
            optimizer_bytes=optimizer_bytes,
            saved_bytes=fsum(
                [value.saved_bytes for value in values if value.saved_bytes is not None]
            ),
            host_bytes=fsum([item.bytes.host for item in parameters]),
        )

    def value_bytes(self, roots: Collection[str]) -> float:
        """Bytes of parameter values, for the given roots."""
        return fsum(
            [self.parameters[root].bytes.value for root in roots if root in self.parameters]
        )


@dataclass(frozen=True, slots=True)
class AssignmentShare:
    """Subset of an assignment: ops by position, and values."""

    ops: tuple[int, ...]
    values: tuple[ProblemValue, ...]

    @staticmethod
    def all_of(models: Models, assignment: Assignment) -> AssignmentShare:
        return AssignmentShare(tuple(assignment.ops), models.values.values)


def ledger_of(
    models: Models, assignment: Assignment, share: AssignmentShare | None = None
) -> Ledger:
    """Ledger of an assignment, or of a share of it.

    Redistributions to readers are items of the value. Raises PlanError for inconsistent layouts.
    """
    share = share or AssignmentShare.all_of(models, assignment)
    return _Bookkeeping(models, assignment).ledger(share)


class _Bookkeeping:
    def __init__(self, models: Models, assignment: Assignment) -> None:
        self.models = models
        self.assignment = assignment
        self.items = Items.of(models)
        self.book = Ledger()
        self.makers: dict[int, str] = {}

    def ledger(self, share: AssignmentShare) -> Ledger:
        book, items, model, ops = self.book, self.items, self.models.ops.model, self.assignment.ops
        for position in share.ops:
            book.ops[position] = items.op(model(position), ops[position])
        for value in share.values:
            if value.is_parameter:
                if value.readers:
                    book.parameters[value.root] = self._parameter(value)
            elif not value.is_free and value.producer is not None:
                value_items = book.values[value.root] = self._value(value, value.producer)
                if value_items.working_bytes:
                    maker = self._maker(value.producer)
                    book.working[maker] = book.working.get(maker, 0.0) + value_items.working_bytes
        return book

    def _maker(self, producer: Reader) -> str:
        """Representative op of the recompute segment of a producer."""
        problem = self.models.problem
        name = problem.ops[producer[0]].name
        return self.makers.setdefault(problem.remade.segment_of[name], name)

    def _needed(self, reader: Reader) -> Codes:
        position, port = reader
        model = self.models.ops.model(position)
        return self.items.needed(model, self.assignment.ops[position], port)

    def _value(self, value: ProblemValue, producer: Reader) -> ValueItems:
        root = value.root
        position, port = producer
        model = self.models.ops.model(position)
        output_state = self.items.made(model, self.assignment.ops[position], port)
        rest = self.assignment.rest.get(root)
        if rest != output_state:
            raise PlanError(
                f"tensor {root!r} is produced in the state {output_state}, but the plan stores it "
                f"in {rest}; use the layout that its op produces"
            )
        read = self.assignment.read.get(root)
        readers = tuple([(self._needed(reader), reader in value.again) for reader in value.readers])
        return self.items.value(
            self.models.ops.space(root),
            output_state,
            read,
            readers,
            value.kept,
            self.models.counted(value, self.models.problem.calibration.exposed),
        )

    def _parameter(self, value: ProblemValue) -> ParameterItems:
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
