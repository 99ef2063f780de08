"""Names for people: the module's path, then the kind, then a number where one repeats.

A module with a single op, or one named like the kind, lends its path alone.
"""

from __future__ import annotations

from collections import Counter

from meshwright.capture.program import Program


def name_values(program: Program) -> None:
    """Name every made value, the same way in structurally equal modules."""
    ops_in = Counter(node.module for node in program.nodes)
    inner = {part for node in program.nodes for part in _parents(node.module)}
    taken = {value.name for value in program.sources}
    seen: Counter[str] = Counter()
    for node in program.nodes:
        kind = node.kind.split(".")[-2] if "." in node.kind else node.kind
        alone = ops_in[node.module] == 1 and node.module not in inner
        said = alone or node.module.rpartition(".")[2] == kind
        stem = node.module if node.module and said else f"{node.module}.{kind}".lstrip(".")
        seen[stem] += 1
        name = stem if seen[stem] == 1 else f"{stem}_{seen[stem]}"
        while name in taken:
            name += "_out"
        taken.add(name)
        for position, value in enumerate(node.outputs):
            value.name = name if len(node.outputs) == 1 else f"{name}:{position}"


def _parents(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
