"""What every door of capture does at its end: rewrite, name, say what is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from meshwright.capture.names import name_values
from meshwright.capture.program import Program
from meshwright.schema import Graph

_LABEL_WORDS = ("label", "target")


def finished(
    program: Program,
    passes: Iterable[Callable[[Program], None]],
    *,
    name: str,
    symbols: Mapping[str, int],
) -> Graph:
    """The program as a graph, with a note for every kind that stays replicated."""
    for rewrite in passes:
        rewrite(program)
    name_values(program)
    used = {value for node in program.nodes for value in node.inputs} | set(program.outputs)
    program.sources = [value for value in program.sources if value in used]
    unknown = sorted({node.kind for node in program.nodes if "." in node.kind})
    program.notes += [f"no canonical kind for {kind}; it is kept replicated" for kind in unknown]
    return program.to_graph(name=name, symbols=symbols)


def is_label(name: str) -> bool:
    """Whether the name of an input says that it is one."""
    return any(word in name.lower() for word in _LABEL_WORDS)
