"""Names of ops: the module's path, the kind, and a number for repeated names.

An op of a module with a single op, or with the name of the kind, has the module's path as its name.
"""

from __future__ import annotations

from collections import Counter

from meshwright.capture.program import Program


def name_values(program: Program) -> None:
    """Name all results, equally in structurally equal modules."""
    ops_in = Counter(node.module for node in program.nodes)
    inner = {part for node in program.nodes for part in _parents(node.module)}
    taken = {value.name for value in program.sources}
    seen: Counter[str] = Counter()
    for node in program.nodes:
        kind = node.kind.split(".")[-2] if "." in node.kind else node.kind
        is_single = ops_in[node.module] == 1 and node.module not in inner
        is_implied = is_single or node.module.rpartition(".")[2] == kind
        stem = node.module if node.module and is_implied else f"{node.module}.{kind}".lstrip(".")
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
