"""The one judge: what an assignment costs, recomputed from its layouts.

    step = sum over ops of compute + inner communication
         + sum over values of the redistributions between the layouts that ops make and need
         + sum over parameters of gathers, gradient reductions, update and spreading
    memory = parameters + gradients + optimizer state + saved activations + reserve

Communication counts with the calibration's exposed share. No solver reports a number of its own:
plans carry what stands here, and `evaluate(problem, plan)` says it of any plan document.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import fsum, prod

import numpy as np

from meshwright.schema import Cost, MemoryUse, Mesh, Plan, PlanError
from solver.assignment import Assignment, Codes, assignment_of_stage
from solver.lowering import Models, ReadStates, saved_as_read_bytes, saved_bytes
from solver.own_moves import own_moves_ns
from solver.problem import Problem
from solver.redistribution import Path
from solver.states import FloatArray, IntArray
from solver.values import Reader, Value, find_values


@dataclass(frozen=True, slots=True)
class Transfer:
    """One redistribution: paths in each microbatch, whether forward runs again, and time."""

    root: str
    reader: Reader | None
    forward: Path
    backward: Path
    again: bool
    ns: float


@dataclass(slots=True)
class Ledger:
    """What an assignment costs, item by item, for one step."""

    op_compute_ns: dict[int, float] = field(default_factory=dict)
    op_communication_ns: dict[int, float] = field(default_factory=dict)
    update_ns: dict[str, float] = field(default_factory=dict)
    transfers: list[Transfer] = field(default_factory=list)
    parameter_ns: dict[tuple[str, Reader | None], tuple[float, float]] = field(default_factory=dict)
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
                communication + fsum(transfer.ns for transfer in self.transfers),
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


def evaluate(problem: Problem, plan: Plan) -> Cost:
    """The cost of a plan document; raises PlanError where it does not fit the problem."""
    if plan.graph != problem.graph.id or plan.topology != problem.topology.id:
        raise PlanError(
            f"the plan is for graph {plan.graph} on {plan.topology}, not for "
            f"{problem.graph.id} on {problem.topology.id}"
        )
    if plan.setup != problem.setup.id:
        raise PlanError(f"the plan is for the setup {plan.setup}, not for {problem.setup.id}")
    if plan.microbatches != problem.microbatches:
        raise PlanError(
            f"the plan has {plan.microbatches} microbatches, the problem {problem.microbatches}"
        )
    if len(plan.stages) != 1:
        raise PlanError(f"expected one pipeline stage, the plan has {len(plan.stages)}")
    stage = plan.stages[0]
    if stage.mesh.device_count != problem.topology.device_count:
        raise PlanError(
            f"the plan's mesh has {stage.mesh.device_count} devices, the topology "
            f"{problem.topology.device_count}"
        )
    _check_levels(problem, stage.mesh)
    models = Models(problem.of_stage(stage), find_values(problem), stage.mesh)
    return cost_of(models, [(ledger_of(models, assignment_of_stage(models, stage)), 1)])


def _check_levels(problem: Problem, mesh: Mesh) -> None:
    for level in problem.topology.levels:
        size = prod(axis.size for axis in mesh.axes if axis.level == level.name)
        if size != level.size:
            raise PlanError(
                f"the plan's mesh has {size} devices along level {level.name!r}, the topology "
                f"{level.size}"
            )


def cost_of(models: Models, ledgers: Iterable[tuple[Ledger, int]]) -> Cost:
    """The totals of ledgers, each as often as it says."""
    problem = models.problem
    exposed = problem.calibration.exposed
    totals = sum((times * ledger.totals() for ledger, times in ledgers), np.zeros(8))
    compute, activation, gathers, reductions = totals[:4].tolist()
    full = {"activation": activation, "parameter": gathers, "gradient": reductions}
    waited = {
        "activation": activation * exposed.activation,
        "parameter": gathers * exposed.parameter,
        "gradient": reductions * exposed.gradient,
    }
    capacity = problem.topology.device.memory_bytes
    return Cost(
        step_ns=compute + sum(waited.values()),
        compute_ns=compute,
        communication_ns=full,
        exposed_ns=waited,
        memory_bytes=MemoryUse(
            parameters=round(totals[4]),
            gradients=round(totals[5]),
            optimizer=round(totals[6]),
            activations=round(totals[7]),
            reserved=round(capacity * problem.setup.memory_reserve),
            capacity=capacity,
        ),
    )


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
        self.book = Ledger()
        self.memo: dict[Hashable, tuple[float, float]] = {}

    def ledger(self, share: Share) -> Ledger:
        for position in share.ops:
            self._op(position)
        for value in share.values:
            if value.is_parameter:
                self._parameter(value)
            elif not value.is_free and value.producer is not None:
                self._value(value)
        return self.book

    def _op(self, position: int) -> None:
        models, book = self.models, self.book
        model = models.ops.model(position)
        codes = self.assignment.ops[position]
        count = models.problem.microbatches
        key = (model, codes)
        if key not in self.memo:
            row = np.array([codes])
            self.memo[key] = (
                count * float(models.compute_ns(model, row)[0]),
                count * float(own_moves_ns(model, row, models.interconnect)[0]),
            )
        book.op_compute_ns[position], book.op_communication_ns[position] = self.memo[key]

    def _needed(self, reader: Reader) -> Codes:
        model = self.models.ops.model(reader[0])
        row = np.array([self.assignment.ops[reader[0]]])
        return tuple(int(code) for code in model.required(row, reader[1])[0])

    def _value(self, value: Value) -> None:
        assert value.producer is not None
        root = value.root
        rest = self.assignment.rest.get(root)
        made = self._made(value)
        if rest != made:
            raise PlanError(
                f"tensor {root!r} is made in the state {made} but said to rest in {rest}"
            )
        read = self.assignment.read.get(root)
        if read is None:
            for reader in value.readers:
                needed = self._needed(reader)
                self._transfer(value, made, needed, reader, again=False)
                if value.is_saved:
                    self.book.saved_bytes[root] = self._saved_as_read(value, made, needed)
            if value.saved_by_producer:
                self.book.saved_bytes[root] = self.book.saved_bytes.get(root, 0.0) + self._local(
                    value, made
                )
            return
        self._transfer(value, made, read.codes, None, again=read.again)
        for reader in value.readers:
            saves = reader in value.saving
            self._transfer(value, read.codes, self._needed(reader), reader, again=saves)
        if value.is_saved:
            moves = self.models.redistributions(self.models.ops.space(root))
            states = ReadStates(np.array([read.codes]), np.array([read.again]))
            kept = value.saved_by_producer
            copy = saved_bytes(moves, np.array([made]), states, kept)
            self.book.saved_bytes[root] = float(copy[0, 0]) + (
                self._local(value, made) if kept else 0.0
            )

    def _made(self, value: Value) -> Codes:
        assert value.producer is not None
        position, port = value.producer
        row = np.array([self.assignment.ops[position]])
        made = self.models.ops.model(position).made(row, port)[0]
        return tuple(int(code) for code in made)

    def _local(self, value: Value, codes: Codes) -> float:
        return float(self.models.ops.space(value.root).local_bytes(np.array([codes]))[0])

    def _saved_as_read(self, value: Value, rest: Codes, needed: Codes) -> float:
        moves = self.models.redistributions(self.models.ops.space(value.root))
        found = saved_as_read_bytes(
            moves, np.array([rest]), np.array([needed]), value.saved_by_producer
        )
        return float(found[0, 0])

    def _transfer(
        self, value: Value, source: Codes, target: Codes, reader: Reader | None, *, again: bool
    ) -> None:
        if source == target:
            return
        moves = self.models.redistributions(self.models.ops.space(value.root))
        a, b = (moves.space.index(np.array([codes])) for codes in (source, target))
        ns = float(moves.total_ns(a, b)[0]) + (float(moves.forward_ns(a, b)[0]) if again else 0.0)
        self.book.transfers.append(
            Transfer(
                value.root,
                reader,
                moves.forward_path(int(a[0]), int(b[0])),
                moves.backward_path(int(a[0]), int(b[0])),
                again,
                ns * self.models.problem.microbatches,
            )
        )

    def _parameter(self, value: Value) -> None:
        root = value.root
        if not value.readers:
            return
        codes = self.assignment.parameters.get(root)
        if codes is None:
            raise PlanError(f"the plan has no layout for parameter {root!r}")
        model = self.models.parameter(value)
        states = np.array([codes])
        self.book.update_ns[root] = float(model.update_ns(states)[0])
        memory = model.memory_bytes(states)
        self.book.parameter_bytes[root] = (
            float(memory[0][0]),
            float(memory[1][0]),
            float(memory[2][0]),
        )
        self.book.parameter_ns[root, None] = (float(model.spread_ns(states)[0]), 0.0)
        count = self.models.problem.microbatches
        gathers = 2 if model.trained else 1
        read = self.assignment.read.get(root)
        targets: list[tuple[Reader | None, Codes]] = (
            [(None, read.codes)]
            if read is not None
            else [(reader, self._needed(reader)) for reader in value.readers]
        )
        for reader, needed_codes in targets:
            needed: IntArray = np.array([needed_codes])
            gather = float(model.gather_ns(states, needed)[0, 0]) * gathers * count
            often, once = model.reduce_ns(states, needed)
            if not np.isfinite(gather + float(often[0, 0]) + float(once[0, 0])):
                raise PlanError(
                    f"parameter {root!r} rests in the state {codes}, which is coarser than the "
                    f"state {needed_codes} that its reader needs"
                )
            previous = self.book.parameter_ns.get((root, reader), (0.0, 0.0))
            self.book.parameter_ns[root, reader] = (
                previous[0] + gather,
                previous[1] + float(often[0, 0]) * count + float(once[0, 0]),
            )
        if read is not None:
            for own in value.readers:
                self._transfer(value, read.codes, self._needed(own), own, again=False)
