"""Final step of every capture: graph passes, names, and rules of unknown kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from meshwright.capture.names import name_values
from meshwright.capture.op_rules.notes import OpRule, with_op_rules
from meshwright.capture.program import Program
from meshwright.schema import Graph

_LABEL_WORDS = ("label", "target")


def finalize_program(
    program: Program,
    passes: Iterable[Callable[[Program], None]],
    *,
    name: str,
    symbols: Mapping[str, int],
    rules: Callable[[Graph], Mapping[str, OpRule]] = lambda _: {},
) -> Graph:
    """The graph of a program after its passes, with a note for every unknown kind.

    rules: returns the rules of ops of unknown kinds, by op; the others are replicated.
    """
    for rewrite in passes:
        rewrite(program)
    name_values(program)
    used = {value for node in program.nodes for value in node.inputs} | set(program.outputs)
    program.sources = [value for value in program.sources if value in used]
    graph = program.to_graph(name=name, symbols=symbols)
    return with_op_rules(graph, rules(graph))


def is_label(name: str) -> bool:
    """Whether the name of an input is that of a label."""
    return any(word in name.lower() for word in _LABEL_WORDS)
