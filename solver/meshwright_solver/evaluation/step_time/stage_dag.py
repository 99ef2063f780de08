"""Stage DAG: the ops of a stage in execution order and their dependencies, as arrays.

The DAG is built from ledgers, once per distinct content. Copies of a folded graph reuse the rows of
their content.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.identity_keys import IdentityKey
from meshwright_solver.common.row_templates import Contents, Stamps
from meshwright_solver.evaluation.accounting.assignment import Assignment, Codes
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare, Ledger, ledger_of
from meshwright_solver.evaluation.accounting.ledger_items import (
    Gathered,
    ParameterItems,
    RedistributionItem,
    ValueItems,
)
from meshwright_solver.evaluation.step_time.collective_chains import (
    NOTHING,
    Chains,
    ChainWriter,
    Hop,
)
from meshwright_solver.evaluation.step_time.columns import (
    ALL,
    EDGE_COLUMNS,
    EDGE_PORT,
    EDGE_READER,
    EDGE_VALUE,
    HALF,
    NOBODY,
    OP_AGAIN,
    OP_BACK_BEFORE,
    OP_BEFORE,
    OP_COLUMNS,
    OP_IS_AGAIN,
    OP_RUNS_BACKWARD,
    OP_SEGMENT,
    OP_WEIGHTS,
    VALUE_COLUMNS,
    VALUE_PRODUCER,
)
from meshwright_solver.evaluation.step_time.op_order import ranks_of, with_casts_ahead
from meshwright_solver.layouts.redistribution import Path, Redistributions
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.fusion import BUCKET_BYTES
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_collectives import own_moves
from meshwright_solver.strategies.op_model import OpModel

BEFORE_FORWARD = ("halo", "indices")
BEFORE_BACKWARD = ("rows",)
BESIDE = ("ring",)
BETWEEN_STAGES = ("receive", "return")

_NO_SEGMENT = (NOBODY, 0)  # in no segment, not recomputed
_NO_CHAINS = (NOTHING, NOTHING, NOTHING)
_EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class StageDag:
    """Ops, values and edges of a stage.

    ops: in execution order, (ops, columns). ns: forward, inputs, weights of each op. edges: by
    reader and port; edge_first[i]: the first edge of op i. outputs: values of each op. segments:
    recomputed ops, by segment. host: down, work and up of each value. update_ns: all parameters, on
    the device. between_ns: transfers from and to other stages, which no pass includes.
    """

    chains: Chains
    links: int
    ops: IntArray
    ns: FloatArray
    edges: IntArray
    edge_first: IntArray
    values: IntArray
    output_first: IntArray
    outputs: IntArray
    segment_first: IntArray
    segments: IntArray
    host: FloatArray
    update_ns: float
    between_ns: float

    @property
    def weights_ns(self) -> float:
        """Work per microbatch that produces parameter gradients only."""
        return float(self.ns[self.ops[:, OP_RUNS_BACKWARD] > 0, 2].sum())


class AssignmentPart(NamedTuple):
    """Share of an assignment with its ledger and the copies of the graph that it describes.

    copies: for each copy, the names of ops and tensors that differ.
    """

    assignment: Assignment
    ledger: Ledger
    share: AssignmentShare
    copies: Sequence[Mapping[str, str]] = ({},)

    @staticmethod
    def whole(models: Models, assignment: Assignment) -> AssignmentPart:
        """Part that covers the whole assignment. Raises PlanError for inconsistent layouts."""
        share = AssignmentShare.all_of(models, assignment)
        return AssignmentPart(assignment, ledger_of(models, assignment, share), share)


def indexed(dag: StageDag) -> StageDag:
    """DAG with new indices by op and by segment. dag: with edges by reader and port."""
    ops, producer = dag.ops, dag.values[:, VALUE_PRODUCER]
    outputs = np.argsort(producer, kind="stable")[int((producer < 0).sum()) :]
    steps = np.arange(len(ops) + 1)
    again = np.flatnonzero(ops[:, OP_IS_AGAIN])
    segment = ops[again, OP_SEGMENT]
    by_segment = np.argsort(segment, kind="stable")
    count = int(ops[:, OP_SEGMENT].max(initial=NOBODY)) + 1
    return replace(
        dag,
        edge_first=np.searchsorted(dag.edges[:, EDGE_READER], steps),
        output_first=np.searchsorted(producer[outputs], steps),
        outputs=outputs,
        segment_first=np.searchsorted(segment[by_segment], np.arange(count + 1)),
        segments=again[by_segment],
    )


def dag_of(models: Models, parts: Iterable[AssignmentPart], place: Mapping[str, int]) -> StageDag:
    """Stage DAG of all parts. place: position of every op in the whole graph."""
    return _StageDagWriter(models, place).written(parts)


@dataclass(slots=True)
class _StageDagWriter:
    models: Models
    place: Mapping[str, int]
    chains: ChainWriter = field(init=False)
    ops: list[IntArray] = field(default_factory=list)
    ns: list[FloatArray] = field(default_factory=list)
    at: list[IntArray] = field(default_factory=list)
    casts: list[NDArray[np.bool_]] = field(default_factory=list)
    edges: list[IntArray] = field(default_factory=list)
    values: list[IntArray] = field(default_factory=list)
    host: list[FloatArray] = field(default_factory=list)
    update_ns: float = 0.0
    between_ns: float = 0.0
    _count: int = 0
    _known_ops: Contents[_Op] = field(default_factory=Contents)
    _known_values: Contents[_Value] = field(default_factory=Contents)
    _known_ways: dict[IdentityKey, tuple[int, int, int]] = field(default_factory=dict)
    _known_parameters: dict[tuple[IdentityKey, IdentityKey], _ParameterChains] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.chains = ChainWriter(self.models.ops.axis_levels)

    def written(self, parts: Iterable[AssignmentPart]) -> StageDag:
        for part in parts:
            self._part(part)
        at = np.concatenate([_EMPTY, *self.at])
        order = np.argsort(at, kind="stable")
        ns = np.concatenate([np.zeros((0, 3)), *self.ns])
        edges = _stack(self.edges, EDGE_COLUMNS)
        values = _stack(self.values, VALUE_COLUMNS)
        producer = values[:, VALUE_PRODUCER]
        casts = np.concatenate([np.zeros(0, dtype=np.bool_), *self.casts])
        order = with_casts_ahead(order, at, casts, edges, producer)
        ops, ns = _stack(self.ops, OP_COLUMNS)[order], ns[order]
        ranks = ranks_of(at, order)
        edges[:, EDGE_READER] = ranks[edges[:, EDGE_READER]]
        producer[:] = np.where(producer >= 0, ranks[producer], NOBODY)
        edges = edges[np.lexsort((edges[:, EDGE_PORT], edges[:, EDGE_READER]))]
        nothing = np.zeros(0, dtype=np.int64)
        return indexed(
            StageDag(
                chains=self.chains.written(),
                links=len(self.models.interconnect.levels),
                ops=ops,
                ns=ns,
                edges=edges,
                edge_first=nothing,
                values=values,
                output_first=nothing,
                outputs=nothing,
                segment_first=nothing,
                segments=nothing,
                host=np.concatenate([np.zeros((0, 3)), *self.host]),
                update_ns=self.update_ns,
                between_ns=self.between_ns,
            )
        )

    def _part(self, part: AssignmentPart) -> None:
        """Append a share, for all of its copies."""
        models, share = self.models, part.share
        ops, remade = models.problem.ops, models.problem.remade
        numbers = [self._op(models.ops.model(k), part.assignment.ops[k]) for k in share.ops]
        rows = self._known_ops.all
        columns = np.array([row.columns for row in rows], dtype=np.int64).reshape(-1, OP_SEGMENT)
        ns = np.array([row.ns for row in rows], dtype=np.float64).reshape(-1, 3)
        between_ns = sum([rows[number].between_ns for number in numbers])
        values, edges, host, update_ns = self._values(part)
        readers, producers = edges[:, EDGE_READER], values[:, VALUE_PRODUCER]
        # ops of the share come first
        known = np.array([*share.ops, *np.setdiff1d(readers, share.ops).tolist()], dtype=np.int64)
        position_at = np.full(len(ops) + 1, NOBODY, dtype=np.int64)  # the last entry is NOBODY
        names = [ops[k].name for k in known.tolist()]
        is_cast = np.isin(share.ops, [*models.values.weight_casts])
        for renamed in part.copies:
            copy_names = [renamed.get(name, name) for name in names] if renamed else names
            at = np.array([self.place[name] for name in copy_names], dtype=np.int64)
            position_at[known] = at
            again = [
                (remade.segment_of.get(name, NOBODY), int(name in remade.again))
                if remade
                else _NO_SEGMENT
                for name in copy_names[: len(numbers)]
            ]
            self.at.append(at[: len(numbers)])
            self.casts.append(is_cast)
            self.ns.append(ns[numbers])
            segments = np.array(again, dtype=np.int64).reshape(-1, OP_COLUMNS - OP_SEGMENT)
            self.ops.append(np.concatenate([columns[numbers], segments], axis=1))
            stamped = edges.copy()
            stamped[:, EDGE_READER] = position_at[readers]
            stamped[:, EDGE_VALUE] += self._count
            self.edges.append(stamped)
            stamped_values = values.copy()
            stamped_values[:, VALUE_PRODUCER] = position_at[producers]
            self.values.append(stamped_values)
            self.host.append(host)
            self.update_ns += update_ns
            self.between_ns += between_ns
            self._count += len(values)

    def _op(self, model: OpModel, codes: Codes) -> int:
        return self._known_ops.number(
            (self.models.key_of(model), codes), lambda: self._op_of(model, np.array([codes]))
        )

    def _op_of(self, model: OpModel, row: IntArray) -> _Op:
        forward, inputs, weights = self.models.passes_ns(model, row)
        chains: list[list[Hop]] = [[] for _ in range(OP_WEIGHTS)]
        between_ns = 0.0
        for move in own_moves(model, row, self.models.interconnect):
            if move.what in BETWEEN_STAGES:
                between_ns += float(move.ns[0])
                continue
            hop = Hop(self.chains.link(move.axes), float(move.ns[0]), 1)
            first = BEFORE_BACKWARD if move.backward else BEFORE_FORWARD
            where = 0 if move.what in first else 1 if move.what in BESIDE else 2
            chains[where + (OP_BACK_BEFORE if move.backward else OP_BEFORE)].append(hop)
            if move.again:
                chains[OP_AGAIN].append(hop)
        share = model.weights_share
        weights_code = HALF if 0 < share < 1 else ALL if share else NOTHING
        columns = [*map(self.chains.of, chains), weights_code, int(model.runs_backward)]
        return _Op(columns, (float(forward[0]), float(inputs[0]), float(weights[0])), between_ns)

    def _values(self, part: AssignmentPart) -> tuple[IntArray, IntArray, FloatArray, float]:
        """Values, edges, host times and update time, with op positions of the folded graph."""
        model, ledger, key_of = self.models.ops.model, part.ledger, self.models.key_of
        stamps = Stamps(EDGE_COLUMNS, (EDGE_READER,))
        numbers: list[int] = []
        producers: list[int] = []
        for value in part.share.values:
            items = ledger.parameters.get(value.root) or ledger.values.get(value.root)
            if items is None:
                continue
            readers = tuple([(key_of(model(position)), port) for position, port in value.readers])
            content: Hashable = (self.models.key_of(items), readers)
            make = partial(self._value, value, items)
            numbers.append(self._known_values.number(content, make))
            producers.append(value.producer[0] if value.producer is not None else NOBODY)
            positions = [position for position, _ in value.readers]
            if len({*positions}) < len(positions):
                content = content, tuple([positions.index(other) for other in positions])
            stamps.add(content, positions, partial(self._edges, value, items))
        edges, of_value = stamps.written()
        edges[:, EDGE_VALUE] = of_value
        known = self._known_values.all
        values = np.array([row.columns for row in known], dtype=np.int64)
        values = values.reshape(-1, VALUE_COLUMNS)[numbers]
        values[:, VALUE_PRODUCER] = producers
        host = np.array([row.host for row in known], dtype=np.float64).reshape(-1, 3)[numbers]
        return values, edges, host, sum([known[number].update_ns for number in numbers])

    def _value(self, value: ProblemValue, items: ValueItems | ParameterItems) -> _Value:
        if isinstance(items, ValueItems):
            return _Value([NOBODY, *self._way(items.shared), *[NOTHING] * 5], (0.0, 0.0, 0.0), 0.0)
        chains = self._parameter_chains(value, items)
        gather, often, once = chains.targets[0] if self.models.reads_shared(value) else _NO_CHAINS
        trained = int(self.models.parameter(value).trained)
        columns = [NOBODY, NOTHING, NOTHING, 0, gather, trained, often, once, chains.spread]
        return _Value(columns, (items.down_ns, items.host_ns, items.up_ns), items.update_ns)

    def _edges(self, value: ProblemValue, items: ValueItems | ParameterItems) -> list[list[int]]:
        """Rows of all readers of a value."""
        targets: Sequence[Sequence[int]] = ()
        if isinstance(items, ParameterItems) and not self.models.reads_shared(value):
            targets = self._parameter_chains(value, items).targets
        edges = []
        for k, (position, port) in enumerate(value.readers):
            way = items.to_readers[k] if k < len(items.to_readers) else None
            has_gradient = self.models.ops.model(position).inputs[port].has_gradient
            flags = int((position, port) in value.saving), int(has_gradient)
            chains = targets[k] if targets else _NO_CHAINS
            edges.append([position, port, 0, *self._way(way), *flags, *chains])
        return edges

    def _way(self, way: RedistributionItem | None) -> tuple[int, int, int]:
        if way is None:
            return NOTHING, NOTHING, 0
        key = self.models.key_of(way)
        chains = self._known_ways.get(key)
        if chains is None:
            there, back = self.chains.of_path(way.forward), self.chains.of_path(way.backward)
            chains = self._known_ways[key] = there, back, int(way.again)
        return chains

    def _parameter_chains(self, value: ProblemValue, items: ParameterItems) -> _ParameterChains:
        key = self.models.key_of(items), self.models.key_of(self.models.parameter(value))
        chains = self._known_parameters.get(key)
        if chains is None:
            chains = self._known_parameters[key] = self._chains_of(value, items)
        return chains

    def _chains_of(self, value: ProblemValue, items: ParameterItems) -> _ParameterChains:
        model, row = self.models.parameter(value), np.array([items.codes])
        rest, spread = model.value(row), model.spread_path(row) if model.trained else ()
        targets = []
        if items.rows is not None:
            gather = self._of_rows(items.rows)
            return _ParameterChains(NOTHING, [[NOTHING, NOTHING, gather]])
        for target in items.targets:
            needed = np.array([target])
            paths = [_path(model.value_moves, rest, model.read_value(needed)), (), ()]
            if model.trained:
                paths[1:] = model.reduction_paths(row, needed)
            targets.append([self.chains.of_path(path) for path in paths])
        return _ParameterChains(self.chains.of_path(spread), targets)

    def _of_rows(self, rows: Gathered) -> int:
        if not rows.axes:
            return NOTHING
        buckets = max(1, -(-round(rows.payload_bytes) // BUCKET_BYTES))
        return self.chains.of([Hop(self.chains.link(rows.axes), rows.ns, buckets)])


class _Op(NamedTuple):
    """Op content: all columns except segments, ns of the passes, and ns of transfers between
    stages."""

    columns: list[int]
    ns: tuple[float, float, float]
    between_ns: float


class _Value(NamedTuple):
    """Value content: columns except the producer, host times (down, work, up), and update time."""

    columns: list[int]
    host: tuple[float, float, float]
    update_ns: float


class _ParameterChains(NamedTuple):
    """Chains of a parameter: spreading, and by target gathering, reducing in every microbatch and
    reducing once."""

    spread: int
    targets: list[list[int]]


def _path(moves: Redistributions, source: IntArray, target: IntArray) -> Path:
    a, b = (int(moves.space.index(states)[0]) for states in (source, target))
    return moves.forward_path(a, b)


def _stack(rows: list[IntArray], columns: int) -> IntArray:
    return np.concatenate([np.zeros((0, columns), dtype=np.int64), *rows])
