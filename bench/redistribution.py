"""`python -m bench.redistribution`: what it costs to know the cheapest way between any two layouts.

*graph*: all layouts and moves, once for every mesh and number of slots. *prices*: shortest paths,
for every size of value. *pairs*: the table of all pairs of states, value and gradient. Compiled
code is loaded before. MB: the peak of all three, as Python's allocator saw it.
"""

from __future__ import annotations

import time
import tracemalloc
from functools import partial
from statistics import median

import numpy as np

from bench.timing import REPEATS, median_seconds, reference_loop, say
from meshwright_costmodel.collectives import Interconnect
from meshwright_solver.layouts.layout_graph import cached_layout_graph
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.layouts.slot_symmetry import cached_families
from meshwright_solver.layouts.states import StateSpace

# like h100-8x8 and v100-8x8: 8 nodes of 8 devices
LINKS = Interconnect(("node", "gpu"), (8, 8), (4e10, 3.6e11), (14_000, 4_000), (False, False))
MESHES = {1: (8,), 2: (8, 8), 3: (8, 4, 2), 4: (4, 2, 4, 2)}
SLOTS = (3, 4, 5)
LOOKUPS = 10_000


def values(axes: int, slots: int) -> Redistributions:
    """A trained value of a GiB with slots of 4,096."""
    sizes = MESHES[axes]
    levels = {1: (1,), 2: (0, 1), 3: (0, 1, 1), 4: (0, 0, 1, 1)}[axes]
    return Redistributions(StateSpace((4096,) * slots, sizes, 1 << 30, True), levels, LINKS)


def stages(axes: int, slots: int) -> tuple[float, float, float]:
    """Seconds for graph, prices and pairs, from nothing."""
    cached_layout_graph.cache_clear()
    cached_families.cache_clear()
    moves = values(axes, slots)
    states = np.arange(len(moves.space.states))
    times = [time.perf_counter()]
    for work in (
        lambda: moves.graph,
        lambda: moves.distances,
        lambda: moves.total_ns(states[:, None], states[None, :]),
    ):
        work()
        times.append(time.perf_counter())
    graph, prices, pairs = np.diff(times).tolist()
    return graph, prices, pairs


def peak_megabytes(axes: int, slots: int) -> float:
    tracemalloc.start()
    stages(axes, slots)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def look_up(moves: Redistributions) -> None:
    """One pair again and again: its time, and its moves."""
    source, target = np.array([1]), np.array([2])
    for _ in range(LOOKUPS):
        moves.total_ns(source, target)
        moves.forward_path(1, 2)
        moves.backward_path(1, 2)


def main() -> None:
    reference = median_seconds(reference_loop)[0]
    stages(2, 2)
    one = values(3, 4)
    look_up(one)
    seconds = median_seconds(partial(look_up, one))[0] / LOOKUPS
    say(f"reference: numpy min-plus 200 x 200 x 200: {reference:.4f} s")
    say(f"one pair on 3 axes, known: time and moves both ways {1e6 * seconds:.1f} microseconds")
    say(
        f"{'axes':>4} {'slots':>5} {'states':>6} {'pairs':>11} {'graph s':>8} {'prices s':>8} "
        f"{'pairs s':>8} {'all s':>8} {'ratio':>7} {'pairs/s':>12} {'MB':>6}"
    )
    for axes in MESHES:
        for slots in SLOTS:
            runs = sorted((stages(axes, slots) for _ in range(REPEATS)), key=sum)
            graph, prices, pairs = (median(column) for column in zip(*runs, strict=True))
            count = len(values(axes, slots).space.states)
            total = median(sum(run) for run in runs)
            say(
                f"{axes:4} {slots:5} {count:6} {count**2:11,} {graph:8.4f} {prices:8.4f} "
                f"{pairs:8.4f} {total:8.4f} {total / reference:7.1f} {count**2 / total:12,.0f} "
                f"{peak_megabytes(axes, slots):6.1f}"
            )


if __name__ == "__main__":
    main()
