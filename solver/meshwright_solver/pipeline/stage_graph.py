"""The graph of one pipeline stage.

An op of kind `receive` makes each tensor from an earlier stage; the outputs include each tensor for
a later stage. A stage also forwards tensors between stages before and behind it. Views, and ops
that depend on no parameter (masks, rotary tables, shifted labels), belong to no stage: every stage
that needs their results has a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from meshwright.schema import Graph, InvalidInput, Op, ShardingRule
from meshwright_solver.common.recent import Recent
from meshwright_solver.folding.folding_cache import Foldings
from meshwright_solver.pipeline.work import Work
from meshwright_solver.problem.sized_graph import with_gradient
from meshwright_solver.rules import RuleTable
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.stage.recompute.blocks import BlockNames

_KEPT_WORKS = 64  # chosen: a request has some five to twenty


@dataclass(frozen=True, eq=False)
class Anatomy:
    """A graph with the indices for cuts into stages. training: whether it has a backward pass."""

    graph: Graph
    training: bool = True

    @cached_property
    def order(self) -> tuple[Op, ...]:
        """The ops that belong to one stage each, in topological order."""
        return tuple(op for op in self._sorted if op.name not in self._copied)

    @cached_property
    def foldings(self) -> Foldings:
        return Foldings(self.graph)

    @cached_property
    def block_names(self) -> dict[int, BlockNames]:
        """The cache of `Staged.blocks`, by number of microbatches."""
        return {}

    @cached_property
    def works(self) -> Recent[Work]:
        """The cache of `GraphWork`, by all terms of a work besides the graph."""
        return Recent(lambda _: 1, _KEPT_WORKS)

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Position in `order`, by name of the op."""
        return {op.name: position for position, op in enumerate(self.order)}

    @cached_property
    def gradient(self) -> frozenset[str]:
        return with_gradient(self.graph, self._sorted) if self.training else frozenset()

    @cached_property
    def made_at(self) -> Mapping[str, int]:
        """The position in `order` of the producer, by output tensor of an op in `order`."""
        return {name: at for at, op in enumerate(self.order) for name in op.outputs}

    @cached_property
    def last_read_at(self) -> Mapping[str, int]:
        """The last position in `order` that reads a tensor, through copied ops too."""
        last_reads: dict[str, int] = {}
        for at, op in enumerate(self.order):
            for name in op.inputs:
                last_reads.update(dict.fromkeys(self.roots(name), at))
        return last_reads

    def roots(self, name: str) -> tuple[str, ...]:
        """The outputs of ops in `order` from which copied ops compute a tensor."""
        return self._roots.get(name, ())

    def with_copied(self, ops: Iterable[Op], tensors: Iterable[str] = ()) -> list[Op]:
        """The ops with the copied ops that they or the tensors need, in topological order."""
        wanted = {op.name: op for op in ops}
        waiting = [*tensors, *(name for op in wanted.values() for name in op.inputs)]
        while waiting:
            maker = self._maker.get(waiting.pop())
            if maker is not None and maker.name in self._copied and maker.name not in wanted:
                wanted[maker.name] = maker
                waiting += maker.inputs
        return [op for op in self._sorted if op.name in wanted]

    @cached_property
    def _sorted(self) -> tuple[Op, ...]:
        return self.graph.topological_order()

    @cached_property
    def _maker(self) -> Mapping[str, Op]:
        return self.graph.producers()

    @cached_property
    def _copied(self) -> frozenset[str]:
        rules = RuleTable(self.graph.instantiate({}))
        weighted = {t.name for t in self.graph.tensors if t.role == "parameter"}
        copied = set()
        for op in self._sorted:
            if weighted.isdisjoint(op.inputs):
                copied.add(op.name)
                continue
            weighted.update(op.outputs)
            rule = rules.rule_of(op)
            if rule is not None and rule.known.op_class == "view":
                copied.add(op.name)
        return frozenset(copied)

    @cached_property
    def _roots(self) -> Mapping[str, tuple[str, ...]]:
        roots_of: dict[str, tuple[str, ...]] = {}
        for op in self._sorted:
            if op.name in self._copied:
                roots = tuple(
                    dict.fromkeys(r for name in op.inputs for r in roots_of.get(name, ()))
                )
                roots_of.update(dict.fromkeys(op.outputs, roots))
            else:
                roots_of.update({name: (name,) for name in op.outputs})
        return roots_of


def stage_graphs(anatomy: Anatomy, cuts: Sequence[int]) -> tuple[Graph, ...]:
    """The graphs of the stages. Raises InvalidInput for cuts that leave a stage without ops.

    cuts: positions in `anatomy.order` at which stages begin, without that of the first stage.
    """
    bounds = [0, *cuts, len(anatomy.order)]
    if any(first >= last for first, last in pairwise(bounds)):
        raise InvalidInput(f"cuts {list(cuts)} of {len(anatomy.order)} ops leave a stage empty")
    return tuple(
        _stage_graph(anatomy, stage, first, last)
        for stage, (first, last) in enumerate(pairwise(bounds))
    )


def received(graph: Graph) -> tuple[str, ...]:
    """The tensors that a stage receives from the one before."""
    return tuple(op.outputs[0] for op in graph.ops if op.kind == RECEIVE)


def _stage_graph(anatomy: Anatomy, stage: int, first: int, last: int) -> Graph:
    whole = anatomy.graph
    producer_at, last_read_at = anatomy.made_at, anatomy.last_read_at
    comes = [name for name, at in producer_at.items() if at < first <= last_read_at.get(name, -1)]
    goes = [name for name, at in producer_at.items() if at < last <= last_read_at.get(name, -1)]
    ends = {name: _made_by(anatomy, name) for name in dict.fromkeys([*whole.outputs, whole.loss])}
    outputs = [name for name, at in ends.items() if name is not None and first <= at < last]
    ops = [
        *(
            Op(
                name=f"receive {name}",
                kind=RECEIVE,
                outputs=(name,),
                attrs={"gradient": name in anatomy.gradient},
                rule=_any_layout(len(whole.tensor(name).shape)),
            )
            for name in comes
        ),
        *anatomy.with_copied(anatomy.order[first:last], outputs),
    ]
    # gradients come from the loss alone, in whichever stage it is, not from other outputs
    has_loss = whole.loss is not None and whole.loss not in outputs
    stage_outputs = [name for name in outputs if name in whole.outputs and not (has_loss and goes)]
    here = {name for op in ops for name in (*op.inputs, *op.outputs)}
    return Graph(
        name=f"{whole.name} stage {stage}",
        symbols=whole.symbols,
        tensors=tuple(tensor for tensor in whole.tensors if tensor.name in here),
        ops=tuple(ops),
        outputs=tuple(dict.fromkeys([*goes, *stage_outputs])),
        loss=whole.loss if whole.loss in outputs else None,
    )


def _made_by(anatomy: Anatomy, name: str | None) -> int:
    """The first position in the order at which a tensor is available; the last without roots."""
    roots = () if name is None else anatomy.roots(name)
    return max((anatomy.made_at[root] for root in roots), default=len(anatomy.order) - 1)


def _any_layout(rank: int) -> ShardingRule:
    dims = " ".join(f"d{dim}" for dim in range(rank))
    return ShardingRule(notation=f"-> {dims}", saves_inputs=(), flops=0)
