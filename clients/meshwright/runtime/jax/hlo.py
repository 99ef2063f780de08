"""Collectives of a compiled program, read from its HLO text.

XLA joins collectives of one kind and group into one with several arrays; each array counts here.
What stands in the body of a loop runs as often as the loop does.
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
class Compiled:
    """One array in a collective. elements: of the gathered or unreduced array on one device, as a
    plan counts them. groups: of devices, each in order; of a permute (from, to). times: it runs
    in a step."""

    kind: str
    groups: tuple[tuple[int, ...], ...]
    dtype: str
    elements: int
    times: int


def collectives_of(text: str) -> list[Compiled]:
    """All collectives of a compiled module, as `compiled.as_text()` writes it.

    ValueError where a loop does not say how often it runs, or a collective who takes part.
    """
    bodies, entry = _computations(text)
    found: list[Compiled] = []
    for name, times in _runs(bodies, entry).items():
        for line in bodies[name]:
            match = _OP.search(line)
            if match is not None:
                found += _arrays(line, match, times)
    return found


def _arrays(line: str, match: re.Match[str], times: int) -> Iterator[Compiled]:
    result, kind, start, _ = match.groups()
    groups = _groups(line)
    arrays = _ARRAY.findall(result)
    if start and kind == "all-gather":
        arrays = arrays[len(arrays) // 2 :]
    if start and kind == "collective-permute":
        arrays = arrays[1:2]
    if kind == "all-to-all" and len(arrays) == len(groups[0]):
        # an array for each member, which together are the one that is exchanged
        total = sum(prod(_numbers(shape)) for _, shape in arrays)
        arrays = [(arrays[0][0], str(total))]
    for dtype, shape in arrays:
        elements = prod(_numbers(shape))
        if kind == "reduce-scatter":
            elements *= len(groups[0])
        yield Compiled(kind, groups, dtype, elements, times)


def _groups(line: str) -> tuple[tuple[int, ...], ...]:
    listed = _LISTED.search(line) or _PAIRS.search(line)
    if listed is not None:
        return tuple(tuple(_numbers(own)) for own in re.findall(r"\{([\d,]+)\}", listed[1]))
    counted, on_mesh = _COUNTED.search(line), _ON_MESH.search(line)
    if counted is not None:
        shape, dims, order = (_numbers(own or "") for own in counted.groups())
        return _rows(_ids(dims, order).reshape(shape[0], -1))
    names = [] if on_mesh is None else [own.strip().strip("'") for own in on_mesh[4].split(",")]
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
    """Devices in order, as an array of these dims, and those in another order."""
    ids = np.arange(prod(dims)).reshape(dims)
    return ids.transpose(order) if order else ids


def _rows(ids: NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(one) for one in row) for row in ids)


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """Lines by computation, and the one that the program starts with."""
    bodies: dict[str, list[str]] = {}
    entry, lines = "", list[str]()
    for line in text.splitlines():
        opened = _COMPUTATION.match(line)
        if opened is not None:
            lines = bodies.setdefault(opened[2], [])
            entry = opened[2] if opened[1] else entry
        else:
            lines.append(line)
    return bodies, entry


def _runs(bodies: dict[str, list[str]], entry: str) -> Counter[str]:
    """How often each computation runs."""
    runs: Counter[str] = Counter()
    waiting = [(entry, 1)]
    while waiting:
        name, times = waiting.pop()
        runs[name] += times
        for line in bodies[name]:
            often = times * _trips(line)
            for called in _CALLED.findall(line):
                own = [one.removeprefix("%") for one in called.split(", ")]
                waiting += [(one, often) for one in own if one in bodies]
    return runs


def _trips(line: str) -> int:
    if " while(" not in line:
        return 1
    found = _TRIPS.search(line)
    if found is None:
        raise ValueError(f"a loop that does not say how often it runs: {line.strip()[:200]}")
    return int(found[1])


def _numbers(text: str) -> list[int]:
    return [int(own) for own in text.replace(" ", "").split(",") if own]
