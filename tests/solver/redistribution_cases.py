"""Random meshes, values and pairs of states, and what a redistribution between them must be."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from meshwright_costmodel.collectives import Interconnect, collective_cost
from meshwright_solver.layouts.redistribution import Path, Placed, Redistributions
from meshwright_solver.layouts.states import PARTIAL, REPLICATED, VARIED, StateSpace
from tests.solver.stacked_devices import Array, Cluster, Lay

AXIS_SIZES = (2, 3, 5, 6, 8)


def links(random: np.random.Generator) -> Interconnect:
    """Two levels, the outer one up to a hundred times slower; one link kind in four is a mesh."""
    return Interconnect(
        ("node", "gpu"),
        (4096, 4096),
        (float(random.choice([1e8, 1e9, 1e10])), 1e10),
        (int(random.choice([0, 10, 1000, 100_000])), int(random.choice([0, 10, 1000]))),
        (bool(random.random() < 0.25), False),
    )


def situation(
    random: np.random.Generator, axes: int, *, most_elements: int, devices: tuple[int, int]
) -> Redistributions:
    """A value of one to four slots, each of which some of the axes cut.

    devices: at least and at most so many. most_elements: of the value.
    """
    sizes: tuple[int, ...] = ()
    while not devices[0] <= math.prod(sizes or (0,)) <= devices[1]:
        sizes = tuple(int(size) for size in random.choice(AXIS_SIZES, axes))
    slots = [1] * int(random.integers(1, 5))
    for _ in range(40):
        grown = list(slots)
        grown[random.integers(len(slots))] *= int(random.choice(sizes))
        if math.prod(grown) <= most_elements:
            slots = grown
    levels = tuple(sorted(int(level) for level in random.integers(0, 2, axes)))
    space = StateSpace(tuple(slots), sizes, 8 * math.prod(slots), bool(random.random() < 0.75))
    return Redistributions(space, levels, links(random))


def pairs(
    moves: Redistributions, random: np.random.Generator, count: int
) -> Iterator[tuple[int, int]]:
    """Random pairs of different states; half of them of states that slots are cut in."""
    states = moves.space.states
    cut = np.nonzero((states < moves.space.slots).any(axis=1))[0]
    for k in range(count):
        own = cut if k % 2 and len(cut) > 1 else np.arange(len(states))
        source, target = random.choice(own, 2, replace=False)
        yield int(source), int(target)


def value_lay(moves: Redistributions, state: int) -> Lay:
    """What the value is in a state: V replicates it."""
    return _lay(moves, state, {VARIED: REPLICATED})


def gradient_lay(moves: Redistributions, state: int) -> Lay:
    """What the gradient is in a state: P replicates it, V makes it partial."""
    return _lay(moves, state, {PARTIAL: REPLICATED, VARIED: PARTIAL})


def _lay(moves: Redistributions, state: int, meaning: dict[int, int]) -> Lay:
    n = moves.space.slots
    codes = [
        code if code < n else n + meaning.get(code - n, code - n)
        for code in moves.space.states[state].tolist()
    ]
    return Lay.of(codes, [0] * len(codes), n)


def placed_lay(moves: Redistributions, placed: Placed) -> Lay:
    return Lay.of(placed.codes, placed.ranks, moves.space.slots)


def local_bytes(moves: Redistributions, lay: Lay) -> float:
    """Bytes of a part, counted."""
    ways = math.prod(moves.space.axis_sizes[a] for own in lay.slots for a in own)
    return moves.space.bytes / ways


def collect_and_cut_ns(moves: Redistributions, source: Lay) -> float:
    """The plain way: add up what is partial, gather everything, cut off what is wanted."""
    cut = tuple(sorted(a for own in source.slots for a in own))
    reduced = collective_cost("all_reduce", moves.extents(source.partial), moves.interconnect)
    gathered = collective_cost("all_gather", moves.extents(cut), moves.interconnect)
    return reduced.ns(local_bytes(moves, source)) + gathered.ns(float(moves.space.bytes))


def carried_out(
    moves: Redistributions,
    path: Path,
    ends: tuple[Lay, Lay],
    whole: Array,
    random: np.random.Generator,
) -> None:
    """Run a path on all devices; every layout on the way is checked."""
    cluster = Cluster(moves.space.axis_sizes, moves.space.slot_sizes)
    at, target = ends
    held = cluster.place(whole, at, random)
    for move in path:
        before, after = placed_lay(moves, move.before), placed_lay(moves, move.after)
        assert before == at, "a move starts where the one before it ended"
        held = cluster.step(move.kind, move.axes, held, before, after)
        cluster.check(held, whole, after)
        at = after
    assert at == target
