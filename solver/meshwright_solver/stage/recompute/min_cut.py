"""Which ops of a block to do again: a minimum cut.

For every op o of the block a choice r_o (1: done again), for every value v that they make

    needed_v = 1    where a gradient in the block wants it, or an op with r = 1 reads it
    saved_v         = needed_v and not r of its producer

    minimise  sum bytes_v * saved_v  +  a little of the time of what is done again
    or        price * sum bytes_v * saved_v  +  the time of what is done again

As a cut between "again" (source) and "not": wanted values cost their bytes where their producer is
on the other side; others cost them where a reader is on this side and the producer on that. It is
exact (Boykov, Kolmogorov: such terms are submodular). Values that somebody outside of the block
wants are saved whatever is chosen, and cost nothing here. `networkx.minimum_cut` finds the same set
in 70 times the time   # measured: 60 ops, 90 values
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ortools.graph.python import max_flow

_FINE = 1 << 10  # chosen: of a byte, so that of equal bytes the least time wins
_MOST = 1 << 50  # what no cut can cost together


@dataclass(frozen=True, slots=True)
class BlockValue:
    """producer: None where ops outside of the block make it. is_wanted: by a gradient."""

    bytes: int
    producer: int | None
    readers: Sequence[int]
    is_wanted: bool


def ops_again(values: Collection[BlockValue], times: Mapping[int, float]) -> set[int]:
    """Those of the ops in `times` to do again; times: what that takes, in any unit.

    No more than saves anything, and of the cheapest sets the smallest.
    """
    longest = max(times.values(), default=0.0) or 1.0
    fine = _FINE // 2 / max(1, len(times))
    costs = {op: max(1, round(fine * own / longest)) for op, own in times.items()}
    return _cut([(own, min(own.bytes * _FINE, _MOST)) for own in values], costs)


def ops_at_price(
    values: Collection[BlockValue], times: Mapping[int, float], ns_per_byte: float
) -> set[int]:
    """Those of the ops in `times`, in ns, to do again where a saved byte is worth so much."""
    prices = [own.bytes * ns_per_byte for own in values]
    unit = _MOST / 2 / (1.0 + sum(prices) + sum(times.values()))
    costs = {op: max(1, round(unit * own)) for op, own in times.items()}
    return _cut([(v, round(unit * own)) for v, own in zip(values, prices, strict=True)], costs)


def saved_bytes(values: Iterable[BlockValue], again: Collection[int]) -> int:
    """Of a block with these ops done again."""
    return sum(
        own.bytes
        for own in values
        if own.producer not in again
        and (own.is_wanted or any(reader in again for reader in own.readers))
    )


def _cut(prices: Iterable[tuple[BlockValue, int]], costs: Mapping[int, int]) -> set[int]:
    """The smallest of the sets that cost least."""
    node = {op: 2 + k for k, op in enumerate(costs)}
    flow = max_flow.SimpleMaxFlow()
    source, sink = 0, 1
    for op, own in node.items():
        flow.add_arc_with_capacity(own, sink, costs[op])
    free = 2 + len(costs)
    for value, price in prices:
        producer = node.get(value.producer) if value.producer is not None else None
        if value.is_wanted:
            if producer is not None:
                flow.add_arc_with_capacity(source, producer, price)
            continue
        readers = [node[op] for op in value.readers if op in node]
        if not readers:
            continue
        for reader in readers:
            flow.add_arc_with_capacity(reader, free, _MOST)
        flow.add_arc_with_capacity(free, sink if producer is None else producer, price)
        free += 1
    status = flow.solve(source, sink)
    assert status == flow.OPTIMAL
    again = set(flow.get_source_side_min_cut())
    return {op for op, own in node.items() if own in again}
