"""Collectives of a compiled program, from its HLO text.

XLA combines collectives of one kind and group into one with several arrays; each array counts here.
A collective in the body of a loop counts once per iteration.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_OP = re.compile(rf"= (.*?) ({'|'.join(KINDS)})(-start)?\((.*)")
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLED = re.compile(
    r"\b(?:body|condition|to_apply|calls|branch_computations)=\{?(%[\w.\-]+(?:, %[\w.\-]+)*)"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_LISTED = re.compile(r"replica_groups=\{(\{[\d,{} ]*\})\}")
_COUNTED = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_ON_MESH = re.compile(
    r"replica_groups=mesh\[([^\]]*)\]"
    r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}"
)
_AXIS = re.compile(r"'([^']+)'=(\d+)")
_PAIRS = re.compile(r"source_target_pairs=\{(\{[\d,{} ]*\})\}")


@dataclass(frozen=True, slots=True)
class CompiledCollective:
    """One array of a collective.

    `elements` is the size of the gathered or unreduced array on one device, as in plans. `groups`
    are the groups of devices, or the pairs (source, target) of a permute. `times` is the number of
    runs in a step.
    """

    kind: str
    groups: tuple[tuple[int, ...], ...]
    dtype: str
    elements: int
    times: int


def collectives_of(text: str) -> list[CompiledCollective]:
    """All collectives of a compiled module in the text of `compiled.as_text()`.

    Raises ValueError for a loop without a trip count, or a collective without groups.
    """
    bodies, entry = _computations(text)
    collectives: list[CompiledCollective] = []
    for name, times in _runs(bodies, entry).items():
        for line in bodies[name]:
            match = _OP.search(line)
            if match is not None:
                collectives += _arrays(line, match, times)
    return collectives


def _arrays(line: str, match: re.Match[str], times: int) -> Iterator[CompiledCollective]:
    result, kind, start, _ = match.groups()
    groups = _groups(line)
    arrays = _ARRAY.findall(result)
    if start and kind == "all-gather":
        arrays = arrays[len(arrays) // 2 :]
    if start and kind == "collective-permute":
        arrays = arrays[1:2]
    if kind == "all-to-all" and len(arrays) == len(groups[0]):
        # one array for each member; together they are the exchanged array
        total = sum(prod(_numbers(shape)) for _, shape in arrays)
        arrays = [(arrays[0][0], str(total))]
    for dtype, shape in arrays:
        elements = prod(_numbers(shape))
        if kind == "reduce-scatter":
            elements *= len(groups[0])
        yield CompiledCollective(kind, groups, dtype, elements, times)


def _groups(line: str) -> tuple[tuple[int, ...], ...]:
    listed = _LISTED.search(line) or _PAIRS.search(line)
    if listed is not None:
        return tuple(tuple(_numbers(ids)) for ids in re.findall(r"\{([\d,]+)\}", listed[1]))
    counted, on_mesh = _COUNTED.search(line), _ON_MESH.search(line)
    if counted is not None:
        shape, dims, order = (_numbers(numbers or "") for numbers in counted.groups())
        return _rows(_ids(dims, order).reshape(shape[0], -1))
    names = [] if on_mesh is None else [name.strip().strip("'") for name in on_mesh[4].split(",")]
    sizes = {} if on_mesh is None else {n: int(size) for n, size in _AXIS.findall(on_mesh[1])}
    if on_mesh is None or not set(names) <= set(sizes):
        raise ValueError(f"a collective that does not say who takes part: {line.strip()[:200]}")
    dims = _numbers(on_mesh[2] or "") or [prod(sizes.values())]
    ids = _ids(dims, _numbers(on_mesh[3] or "")).reshape(list(sizes.values()))
    places = [list(sizes).index(name) for name in names]
    last = range(ids.ndim - len(places), ids.ndim)
    members = prod(sizes[name] for name in names)
    return _rows(np.moveaxis(ids, places, last).reshape(-1, members))


def _ids(dims: list[int], order: list[int]) -> NDArray[np.int64]:
    """The device numbers as an array of these dims, transposed to an order of dims."""
    ids = np.arange(prod(dims)).reshape(dims)
    return ids.transpose(order) if order else ids


def _rows(ids: NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(device) for device in row) for row in ids)


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """The lines of each computation, and the name of the entry computation."""
    bodies: dict[str, list[str]] = {}
    entry, lines = "", list[str]()
    for line in text.splitlines():
        header = _COMPUTATION.match(line)
        if header is not None:
            lines = bodies.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        else:
            lines.append(line)
    return bodies, entry


def _runs(bodies: dict[str, list[str]], entry: str) -> Counter[str]:
    """The number of runs of each computation."""
    runs: Counter[str] = Counter()
    pending = [(entry, 1)]
    while pending:
        name, times = pending.pop()
        runs[name] += times
        for line in bodies[name]:
            count = times * _trips(line)
            for callees in _CALLED.findall(line):
                names = [callee.removeprefix("%") for callee in callees.split(", ")]
                pending += [(callee, count) for callee in names if callee in bodies]
    return runs


def _trips(line: str) -> int:
    if " while(" not in line:
        return 1
    match = _TRIPS.search(line)
    if match is None:
        raise ValueError(f"a loop that does not say how often it runs: {line.strip()[:200]}")
    return int(match[1])


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.replace(" ", "").split(",") if number]
