"""Check of a sharding rule of one op by two evaluations on random data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from meshwright.capture.interpreter.torch_operator import operator_of
from meshwright.capture.op_rules.batch import BATCH
from meshwright.capture.op_rules.evaluation import CannotEvaluate, Data, OpSample, SampleRun
from meshwright.schema import Factor, Graph, GraphError, Op, RuleError, ShardingRule
from meshwright.schema.op_attrs import read_attrs

EVALUATIONS = 2
# chosen: the batch and all other symbols; larger where a window or a kernel is longer
_SIZES = ((5, 8), (4, 16), (5, 64), (6, 128))
_DATA: Sequence[Data] = ("normal", "positive", "definite")


class CannotCheck(Exception):
    """An op cannot be evaluated often enough; the message says why."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """A factor whose parts are not independent, and how that shows."""

    factor: Factor
    what: str


def evaluations(graph: Graph, op: Op, *, has_gradient: bool) -> tuple[SampleRun, ...]:
    """Two runs of an op on different data and sizes; raises CannotCheck."""
    operator = operator_of(op.kind) if "tensors" in op.attrs else None
    if operator is None:
        raise CannotCheck("it is no registered PyTorch operator")
    if operator._schema.is_mutable:
        raise CannotCheck("it writes to its arguments")
    runs: list[SampleRun] = []
    failure = ""
    for symbols in _small_symbols(graph):
        sample = OpSample(
            op,
            tuple(graph.tensor(name) for name in op.inputs),
            tuple(graph.tensor(name) for name in op.outputs),
            symbols,
            has_gradient,
        )
        try:
            read_attrs(op.attrs, symbols, str)
            run = _first_run(sample, seed=len(runs))
        except (CannotEvaluate, GraphError) as why:
            failure = failure or str(why)
            continue
        runs.append(run)
        if len(runs) == EVALUATIONS:
            return tuple(runs)
    raise CannotCheck(f"an evaluation on the CPU is not possible ({failure})")


def dependence(
    runs: Sequence[SampleRun], rule: ShardingRule, factors: Sequence[Factor]
) -> Dependence | None:
    """The first factor that is not independent in every run."""
    for factor in factors:
        for run in runs:
            try:
                what = run.difference(rule, factor)
            except RuleError as wrong:
                what = wrong.detail
            if what:
                return Dependence(factor, what)
    return None


def _first_run(sample: OpSample, *, seed: int) -> SampleRun:
    """A run on data of the seed's kind, or of another kind where its results are not finite."""
    failures = []
    for k in range(len(_DATA)):
        try:
            return SampleRun(sample, seed=seed, data=_DATA[(seed + k) % len(_DATA)])
        except CannotEvaluate as why:
            failures.append(str(why))
    raise CannotEvaluate(failures[0])


def _small_symbols(graph: Graph) -> Iterator[Mapping[str, int]]:
    for batch, other in _SIZES:
        yield {symbol: batch if symbol == BATCH else other for symbol in graph.symbols}
    # sizes that follow from the symbols in ways that small values do not allow
    for batch in (5, 4):
        yield {**graph.symbols, **({BATCH: batch} if BATCH in graph.symbols else {})}
