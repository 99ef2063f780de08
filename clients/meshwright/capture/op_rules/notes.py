"""Notes on ops without a canonical kind: their rule, or the price of keeping them replicated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshwright.common.units import show_bytes
from meshwright.schema import Graph, Op, ShardingRule
from meshwright.schema.graph import DTYPE_BYTES

MOST_MODULES = 3  # chosen: the modules that a note names


@dataclass(frozen=True, slots=True)
class OpRule:
    """The rule of an op without a canonical kind, or None, and the reason as a clause."""

    rule: ShardingRule | None = None
    reason: str = ""


_NOT_SEARCHED = OpRule()


def with_op_rules(graph: Graph, rules: Mapping[str, OpRule]) -> Graph:
    """The graph with these rules on its ops of unknown kind, and with a note for every such kind.

    rules: by op; an op without one is replicated.
    """
    unknown = [op for op in graph.ops if "." in op.kind]
    if not unknown:
        return graph
    groups: dict[tuple[str, str, str], list[Op]] = {}
    for op in unknown:
        found = rules.get(op.name, _NOT_SEARCHED)
        notation = "" if found.rule is None else found.rule.notation
        groups.setdefault((op.kind, notation, found.reason), []).append(op)
    notes = [
        _note(graph, kind, ops, notation, reason)
        for (kind, notation, reason), ops in sorted(groups.items(), key=lambda item: item[0])
    ]
    ops = tuple(
        op.model_copy(update={"rule": rules[op.name].rule}) if op.name in rules else op
        for op in graph.ops
    )
    return Graph(
        name=graph.name,
        symbols=graph.symbols,
        tensors=graph.tensors,
        ops=ops,
        outputs=graph.outputs,
        loss=graph.loss,
        notes=(*graph.notes, *notes),
    )


def _note(graph: Graph, kind: str, ops: Sequence[Op], notation: str, reason: str) -> str:
    moved = show_bytes(sum(_bytes_moved(graph, op) for op in ops))
    where = _modules(ops)
    if notation:
        return (
            f"no canonical kind for {kind}{where}; its rule is {notation!r}: {reason}. Its FLOPs "
            f"are unknown, so it costs the {moved} that a forward pass moves"
        )
    because = f", because {reason}" if reason else ""
    return (
        f"no canonical kind for {kind}{where}; it is kept replicated{because}. Every device "
        f"computes all of it and moves {moved} in a forward pass"
    )


def _modules(ops: Sequence[Op]) -> str:
    modules = list(dict.fromkeys(op.module for op in ops if op.module))
    if not modules:
        return ""
    more = len(modules) - MOST_MODULES
    shown = ", ".join(modules[:MOST_MODULES])
    return f" in {shown}" + (f" and {more} more" if more > 0 else "")


def _bytes_moved(graph: Graph, op: Op) -> int:
    """The bytes of the inputs and outputs of an op at the graph's symbols."""
    tensors = [graph.tensor(name) for name in (*op.inputs, *op.outputs)]
    return sum(math.prod(t.dims(graph.symbols)) * DTYPE_BYTES[t.dtype] for t in tensors)
