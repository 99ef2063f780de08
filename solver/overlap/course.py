"""The course of a stage: what its ops do one after the other, and what they need, as arrays.

Written from ledgers, each content once; what copies of a folded graph have alike is stamped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.assignment import Assignment, Codes
from solver.ledger import Ledger, Share, ledger_of
from solver.ledger_items import ParameterItems, Way
from solver.models import Models
from solver.op_model import OpModel
from solver.overlap.chains import NOTHING, Chains, ChainWriter, Hop
from solver.overlap.columns import (
    ALL,
    EDGE_COLUMNS,
    EDGE_GATHER,
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
from solver.own_moves import own_moves
from solver.portions import Copy
from solver.redistribution import Path, Redistributions
from solver.states import FloatArray, IntArray
from solver.values import Value

BEFORE_FORWARD = ("halo", "indices")
BEFORE_BACKWARD = ("rows",)
BESIDE = ("ring",)
BETWEEN_STAGES = ("receive", "return")


@dataclass(frozen=True, slots=True)
class Course:
    """ops: in the order in which they run, (ops, columns), with ns: forward, of inputs, of
    weights. edges: by reader and port; edge_first[i]: the first of op i. made: values of
    each op. segments: ops that are done again, segment by segment.
    host: down, work and up of each value. update_ns: of all parameters, on the device.
    between_ns: of what comes from and goes to other stages, which no pass counts.
    """

    chains: Chains
    links: int
    ops: IntArray
    ns: FloatArray
    edges: IntArray
    edge_first: IntArray
    values: IntArray
    made_first: IntArray
    made: IntArray
    segment_first: IntArray
    segments: IntArray
    host: FloatArray
    update_ns: float
    between_ns: float

    @property
    def weights_ns(self) -> float:
        """Of the work in a microbatch, what makes gradients of parameters alone."""
        return float(self.ns[self.ops[:, OP_RUNS_BACKWARD] > 0, 2].sum())


class Part(NamedTuple):
    """A share of an assignment, what it costs, and the copies of the graph that have it."""

    assignment: Assignment
    ledger: Ledger
    share: Share
    copies: Sequence[Copy] = (Copy(),)

    @staticmethod
    def whole(models: Models, assignment: Assignment) -> Part:
        """Of all there is. Raises PlanError for layouts that do not meet."""
        share = Share.all_of(models, assignment)
        return Part(assignment, ledger_of(models, assignment, share), share)


def course_of(models: Models, parts: Iterable[Part], place: Mapping[str, int]) -> Course:
    """place: of every op of the whole graph, the earlier the lower."""
    return _Writer(models, place).written(parts)


@dataclass(slots=True)
class _Writer:
    models: Models
    place: Mapping[str, int]
    chains: ChainWriter = field(init=False)
    ops: list[list[int]] = field(default_factory=list)
    ns: list[tuple[float, float, float]] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    edges: list[IntArray] = field(default_factory=list)
    values: list[IntArray] = field(default_factory=list)
    host: list[FloatArray] = field(default_factory=list)
    update_ns: float = 0.0
    between_ns: float = 0.0
    _count: int = 0
    _known_ops: dict[tuple[int, Codes], _Op] = field(default_factory=dict)
    _known_ways: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _known_parameters: dict[tuple[int, int], _Served] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chains = ChainWriter(self.models.ops.axis_levels)

    def written(self, parts: Iterable[Part]) -> Course:
        for part in parts:
            self._part(part)
        order = np.argsort(np.array(self.at, dtype=np.int64), kind="stable")
        rank = {self.at[k]: number for number, k in enumerate(order.tolist())}
        ops = np.array(self.ops, dtype=np.int64).reshape(-1, OP_COLUMNS)[order]
        ns = np.array(self.ns, dtype=np.float64).reshape(-1, 3)[order]
        edges = _stacked(self.edges, EDGE_COLUMNS)
        values = _stacked(self.values, VALUE_COLUMNS)
        ranks = np.full(max(rank, default=0) + 1, NOBODY, dtype=np.int64)
        ranks[list(rank)] = list(rank.values())
        edges[:, EDGE_READER] = ranks[edges[:, EDGE_READER]]
        producer = values[:, VALUE_PRODUCER]
        producer[:] = np.where(producer >= 0, ranks[producer], NOBODY)
        edges = edges[np.lexsort((edges[:, EDGE_PORT], edges[:, EDGE_READER]))]
        made = np.argsort(producer, kind="stable")[int((producer < 0).sum()) :]
        steps = np.arange(len(ops) + 1)
        again = np.flatnonzero(ops[:, OP_IS_AGAIN])
        segment = ops[again, OP_SEGMENT]
        by_segment = np.argsort(segment, kind="stable")
        count = int(ops[:, OP_SEGMENT].max(initial=NOBODY)) + 1
        return Course(
            chains=self.chains.written(),
            links=len(self.models.interconnect.levels),
            ops=ops,
            ns=ns,
            edges=edges,
            edge_first=np.searchsorted(edges[:, EDGE_READER], steps),
            values=values,
            made_first=np.searchsorted(producer[made], steps),
            made=made,
            segment_first=np.searchsorted(segment[by_segment], np.arange(count + 1)),
            segments=again[by_segment],
            host=np.concatenate([np.zeros((0, 3)), *self.host]),
            update_ns=self.update_ns,
            between_ns=self.between_ns,
        )

    def _part(self, part: Part) -> None:
        """A share, for all of its copies."""
        models = self.models
        ops, remade = models.problem.ops, models.problem.remade
        rows = [self._op(models.ops.model(k), part.assignment.ops[k]) for k in part.share.ops]
        values, edges, host, update_ns = self._values(part)
        known: dict[int, int] = {}
        for k in (*part.share.ops, *edges[:, EDGE_READER].tolist()):
            known.setdefault(k, len(known))
        producers = values[:, VALUE_PRODUCER].tolist()
        reader = np.array([known[k] for k in edges[:, EDGE_READER].tolist()], dtype=np.int64)
        names = [ops[k].name for k in known]
        for copy in part.copies:
            renamed = copy.names()
            own = [renamed.get(name, name) for name in names] if renamed else names
            at = [self.place[name] for name in own]
            # the share's ops come first among those known
            for row, where, name in zip(rows, at, own, strict=False):
                self.at.append(where)
                self.ns.append(row.ns)
                segment = remade.segment_of.get(name, NOBODY) if remade else NOBODY
                self.ops.append([*row.columns, segment, int(bool(remade) and name in remade.again)])
            stamped = edges.copy()
            stamped[:, EDGE_READER] = np.array(at, dtype=np.int64)[reader]
            stamped[:, EDGE_VALUE] += self._count
            self.edges.append(stamped)
            made = values.copy()
            made[:, VALUE_PRODUCER] = [at[known[k]] if k >= 0 else NOBODY for k in producers]
            self.values.append(made)
            self.host.append(host)
            self.update_ns += update_ns
            self.between_ns += sum(row.between_ns for row in rows)
            self._count += len(values)

    def _op(self, model: OpModel, codes: Codes) -> _Op:
        key = id(model), codes
        found = self._known_ops.get(key)
        if found is None:
            found = self._known_ops[key] = self._op_of(model, np.array([codes]))
        return found

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

    def _values(self, part: Part) -> tuple[IntArray, IntArray, FloatArray, float]:
        """Values and edges, with positions of ops of the folded graph; what hosts do; updates."""
        values: list[list[int]] = []
        edges: list[list[int]] = []
        host: list[tuple[float, float, float]] = []
        update_ns = 0.0
        for value in part.share.values:
            if value.is_parameter and value.root in part.ledger.parameters:
                own = part.ledger.parameters[value.root]
                self._parameter(value, own, len(values), values, edges)
                host.append((own.down_ns, own.host_ns, own.up_ns))
                update_ns += own.update_ns
            elif value.root in part.ledger.values:
                items = part.ledger.values[value.root]
                assert value.producer is not None
                there, back, again = self._way(items.shared)
                values.append([value.producer[0], there, back, again, *[NOTHING] * 5])
                host.append((0.0, 0.0, 0.0))
                for k, reader in enumerate(value.readers):
                    way = items.to_readers[k] if k < len(items.to_readers) else None
                    edges.append(self._edge(value, reader, len(values) - 1, way))
        return (
            np.array(values, dtype=np.int64).reshape(-1, VALUE_COLUMNS),
            np.array(edges, dtype=np.int64).reshape(-1, EDGE_COLUMNS),
            np.array(host, dtype=np.float64).reshape(-1, 3),
            update_ns,
        )

    def _edge(
        self, value: Value, reader: tuple[int, int], number: int, way: Way | None
    ) -> list[int]:
        there, back, again = self._way(way)
        port = self.models.ops.model(reader[0]).inputs[reader[1]]
        saving = int(reader in value.saving)
        return [*reader, number, there, back, again, saving, int(port.has_gradient), 0, 0, 0]

    def _way(self, way: Way | None) -> tuple[int, int, int]:
        if way is None:
            return NOTHING, NOTHING, 0
        found = self._known_ways.get(id(way))
        if found is None:
            there, back = self.chains.of_path(way.forward), self.chains.of_path(way.backward)
            found = self._known_ways[id(way)] = there, back, int(way.again)
        return found

    def _parameter(
        self,
        value: Value,
        own: ParameterItems,
        number: int,
        values: list[list[int]],
        edges: list[list[int]],
    ) -> None:
        served = self._served(value, own)
        is_shared = self.models.reads_shared(value)
        gather, often, once = served.targets[0] if is_shared else (NOTHING,) * 3
        trained = int(self.models.parameter(value).trained)
        values.append([NOBODY, NOTHING, NOTHING, 0, gather, trained, often, once, served.spread])
        for k, reader in enumerate(value.readers):
            way = own.to_readers[k] if k < len(own.to_readers) else None
            edge = self._edge(value, reader, number, way)
            if not is_shared:
                edge[EDGE_GATHER:] = served.targets[k]
            edges.append(edge)

    def _served(self, value: Value, own: ParameterItems) -> _Served:
        key = id(own), id(self.models.parameter(value))
        found = self._known_parameters.get(key)
        if found is None:
            found = self._known_parameters[key] = self._chains_of(value, own)
        return found

    def _chains_of(self, value: Value, own: ParameterItems) -> _Served:
        model, row = self.models.parameter(value), np.array([own.codes])
        rest, optimizer = model.value(row), model.optimizer(row)
        spread = _path(model.value_moves, optimizer, rest) if model.trained else ()
        targets = []
        for target in own.targets:
            needed = np.array([target])
            paths = [_path(model.value_moves, rest, model.read_value(needed)), (), ()]
            if model.trained:
                kept, moves = model.accumulated(row, needed)[0], model.gradient_moves
                paths[1:] = [
                    _path(moves, model.left_gradient(needed), kept),
                    _path(moves, kept, optimizer),
                ]
            targets.append([self.chains.of_path(path) for path in paths])
        return _Served(self.chains.of_path(spread), targets)


class _Op(NamedTuple):
    """All columns but those of segments, ns of the passes, and of what it has to do with others."""

    columns: list[int]
    ns: tuple[float, float, float]
    between_ns: float


class _Served(NamedTuple):
    """Chains: of spreading a parameter; by target those of gathering, of reducing in every
    microbatch, and once."""

    spread: int
    targets: list[list[int]]


def _path(moves: Redistributions, source: IntArray, target: IntArray) -> Path:
    a, b = (int(moves.space.index(states)[0]) for states in (source, target))
    return moves.forward_path(a, b)


def _stacked(rows: list[IntArray], columns: int) -> IntArray:
    return np.concatenate([np.zeros((0, columns), dtype=np.int64), *rows])
