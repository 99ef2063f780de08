"""The graph of one pipeline stage.

What the stage needs of an earlier one is made by an op of kind `receive`; what a later one needs is
among its outputs. A tensor that passes by is received and sent on. Ops that depend on no parameter
(masks, rotary tables, shifted labels) are run by every stage that needs them instead of sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from meshwright.schema import Graph, InvalidInput, Op, ShardingRule
from solver.problem import with_gradient
from solver.rules.known import RECEIVE


@dataclass(frozen=True)
class Anatomy:
    """What cutting a graph into stages has to know of it. training: whether gradients go back."""

    graph: Graph
    training: bool = True

    @cached_property
    def order(self) -> tuple[Op, ...]:
        """The ops that stages share out, in topological order."""
        return tuple(op for op in self._sorted if op.name not in self._copied)

    @cached_property
    def gradient(self) -> frozenset[str]:
        return with_gradient(self.graph, self._sorted) if self.training else frozenset()

    @cached_property
    def maker(self) -> Mapping[str, Op]:
        """By tensor, the op that makes it."""
        return self.graph.producers()

    @cached_property
    def readers(self) -> Mapping[str, tuple[Op, ...]]:
        """By tensor made in a stage, the shared ops that read it."""
        found: dict[str, list[Op]] = {}
        for op in self.order:
            for name in dict.fromkeys(op.inputs):
                if name in self.maker and not self.is_copied(self.maker[name]):
                    found.setdefault(name, []).append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    def is_copied(self, op: Op) -> bool:
        """Whether every stage that needs the op's results makes them itself."""
        return op.name in self._copied

    def with_copied(self, ops: Iterable[Op]) -> list[Op]:
        """The ops, and before them the copied ones that they need, in topological order."""
        wanted = {op.name for op in ops}
        waiting = [op for op in self._sorted if op.name in wanted]
        while waiting:
            for name in waiting.pop().inputs:
                maker = self.maker.get(name)
                if maker is not None and self.is_copied(maker) and maker.name not in wanted:
                    wanted.add(maker.name)
                    waiting.append(maker)
        return [op for op in self._sorted if op.name in wanted]

    @cached_property
    def _sorted(self) -> tuple[Op, ...]:
        return self.graph.topological_order()

    @cached_property
    def _copied(self) -> frozenset[str]:
        """Ops that depend on no parameter, but for those that none with a parameter needs."""
        weighted = {t.name for t in self.graph.tensors if t.role == "parameter"}
        for op in self._sorted:
            if any(name in weighted for name in op.inputs):
                weighted.update(op.outputs)
        return frozenset(op.name for op in self._sorted if not weighted.intersection(op.outputs))


def stage_graphs(anatomy: Anatomy, cuts: Sequence[int]) -> tuple[Graph, ...]:
    """The graphs of the stages; cuts: positions in `anatomy.order` before which a stage begins,
    but for the first. Raises InvalidInput for cuts that leave a stage without ops."""
    bounds = [0, *cuts, len(anatomy.order)]
    if any(first >= last for first, last in pairwise(bounds)):
        raise InvalidInput(f"cuts {list(cuts)} of {len(anatomy.order)} ops leave a stage empty")
    stage_of = {
        op.name: stage
        for stage, (first, last) in enumerate(pairwise(bounds))
        for op in anatomy.order[first:last]
    }
    last_reader = {
        name: max(stage_of[reader.name] for reader in readers)
        for name, readers in anatomy.readers.items()
    }
    made_in = {name: stage_of[op.name] for name, op in anatomy.maker.items() if op.name in stage_of}
    return tuple(
        _stage_graph(anatomy, stage, first, last, made_in, last_reader)
        for stage, (first, last) in enumerate(pairwise(bounds))
    )


def _any_layout(rank: int) -> ShardingRule:
    dims = " ".join(f"d{dim}" for dim in range(rank))
    return ShardingRule(notation=f"-> {dims}", saves_inputs=(), flops=0)


def received(graph: Graph) -> tuple[str, ...]:
    """The tensors that a stage gets from the one before."""
    return tuple(op.outputs[0] for op in graph.ops if op.kind == RECEIVE)


def _stage_graph(
    anatomy: Anatomy,
    stage: int,
    first: int,
    last: int,
    made_in: Mapping[str, int],
    last_reader: Mapping[str, int],
) -> Graph:
    whole = anatomy.graph
    comes = [name for name, made in made_in.items() if made < stage <= last_reader.get(name, -1)]
    goes = [name for name, made in made_in.items() if made <= stage < last_reader.get(name, -1)]
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
        *anatomy.with_copied(anatomy.order[first:last]),
    ]
    here = {name for op in ops for name in (*op.inputs, *op.outputs)}
    outputs = [name for name in whole.outputs if made_in.get(name) == stage]
    loss = whole.loss if made_in.get(whole.loss or "") == stage else None
    return Graph(
        name=f"{whole.name} stage {stage}",
        symbols=whole.symbols,
        tensors=tuple(tensor for tensor in whole.tensors if tensor.name in here),
        ops=tuple(ops),
        outputs=tuple(dict.fromkeys([*goes, *outputs])),
        loss=loss,
    )
