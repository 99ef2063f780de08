"""Every sequence of collectives between the layouts of one array, by trying all.

Written from what collectives mean, on explicit lists of what every device holds, and knowing
nothing of states, ranks or strides: a layout is the axes on every slot, slowest first, and the
partial ones. Slow; for meshes of a few devices.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache

from meshwright_costmodel.collectives import Interconnect, collective_cost, collective_lines
from tests.solver.stacked_devices import Lay

Device = tuple[int, ...]
# a collective (or None for what costs nothing), its axes, whether the part before or after is paid
Move = tuple[str | None, tuple[int, ...], Lay, Lay]


def cheapest_ns(
    axis_sizes: tuple[int, ...],
    slot_sizes: tuple[int, ...],
    source: Lay,
    bytes_: int,
    axis_levels: tuple[int, ...],
    links: Interconnect,
    load: Callable[[int], float],
) -> dict[Lay, float]:
    """What the cheapest sequence from a layout to every other costs.

    load: what the fullest device has over the mean where slot 0 is cut so many ways.
    """

    def part(lay: Lay) -> float:
        own = [math.prod(axis_sizes[a] for a in slot) for slot in lay.slots]
        return bytes_ / math.prod(own) * (load(own[0]) if own else 1.0)

    found: dict[Lay, float] = {}
    waiting: list[tuple[float, int, Lay]] = [(0.0, 0, source)]
    ticket = itertools.count(1)
    while waiting:
        paid, _, at = heapq.heappop(waiting)
        if at in found:
            continue
        found[at] = paid
        for kind, axes, payload, after in moves_from(axis_sizes, slot_sizes, at):
            if after in found:
                continue
            sent = part(payload)
            extents = links.extents_of((axis_levels[a], axis_sizes[a]) for a in axes)
            cost = 0.0
            if kind == "exchange":  # an all-to-all of unequal shares: all may leave the device
                if at.slots:  # none gets more than if all axes came to lie on slot 0
                    ways = math.prod(axis_sizes[a] for a in at.slots[0])
                    others = math.prod(axis_sizes[a] for a in axes if a not in at.slots[0])
                    sent *= load(ways * others) / load(ways)
                by_protocol = zip(
                    collective_lines("all_to_all", extents, links),
                    collective_lines("send", extents, links),
                    strict=True,
                )
                cost = min(start + per_byte * sent for (start, _), (_, per_byte) in by_protocol)
            elif kind == "all_to_all":  # the device that sends or gets most
                cost = collective_cost(kind, extents, links).ns(max(sent, part(after)))
            elif kind is not None:
                cost = collective_cost(kind, extents, links).ns(sent)  # type: ignore[arg-type]  # a collective's name
            heapq.heappush(waiting, (paid + cost, next(ticket), after))
    return found


@cache
def moves_from(
    axis_sizes: tuple[int, ...], slot_sizes: tuple[int, ...], at: Lay
) -> tuple[Move, ...]:
    """Every collective that can follow a layout, and where it leads."""
    axes = range(len(axis_sizes))
    on_slots = {a for own in at.slots for a in own}
    whole = [a for a in axes if a not in on_slots and a not in at.partial and axis_sizes[a] > 1]
    found: list[Move] = []
    for group in _subsets(axes):
        chosen = set(group)
        rest = Lay(
            tuple(tuple(a for a in own if a not in chosen) for own in at.slots),
            tuple(a for a in at.partial if a not in chosen),
        )
        behind = all(
            own[: len(kept)] == kept for own, kept in zip(at.slots, rest.slots, strict=True)
        )
        masked = Lay(rest.slots, tuple(sorted((*rest.partial, *group))))
        if behind and chosen <= on_slots | set(whole):
            found.append((None, group, at, masked))
        if chosen <= set(whole):
            found += [
                (None, group, at, after) for after in _placed(rest, group, axis_sizes, slot_sizes)
            ]
        if behind and chosen <= on_slots:
            found.append(("all_gather", group, rest, rest))
            for after in _placed(rest, group, axis_sizes, slot_sizes):
                if after != at:
                    even = _is_even(axis_sizes, group, at, after)
                    found.append(("all_to_all" if even else "exchange", group, at, after))
        if chosen <= set(at.partial):
            found.append(("all_reduce", group, at, rest))
            found += [
                ("reduce_scatter", group, at, after)
                for after in _placed(rest, group, axis_sizes, slot_sizes)
            ]
    for after in layouts(axis_sizes, slot_sizes):
        group_ = None if after == at else _swapped_over(axis_sizes, at, after)
        if group_ is not None:
            found.append(("send", group_, at, after))
    return tuple(found)


@cache
def layouts(axis_sizes: tuple[int, ...], slot_sizes: tuple[int, ...]) -> tuple[Lay, ...]:
    """Every layout: some axes partial, some on slots in every order, the others nowhere."""
    found = []
    real = [a for a, size in enumerate(axis_sizes) if size > 1]
    for partial in (*_subsets(real), ()):
        empty = Lay(((),) * len(slot_sizes), partial)
        for group in (*_subsets([a for a in real if a not in partial]), ()):
            found += list(_placed(empty, group, axis_sizes, slot_sizes))
    return tuple(found)


def _subsets(axes: range | list[int]) -> Iterator[tuple[int, ...]]:
    for count in range(1, len(axes) + 1):
        yield from itertools.combinations(axes, count)


def _placed(
    rest: Lay, group: tuple[int, ...], axis_sizes: tuple[int, ...], slot_sizes: tuple[int, ...]
) -> Iterator[Lay]:
    """A group's axes behind those that slots have, in every way that divides."""
    seen = set()
    for order in itertools.permutations(group):
        for places in itertools.product(range(len(slot_sizes)), repeat=len(group)):
            slots = [list(own) for own in rest.slots]
            for a, place in zip(order, places, strict=True):
                slots[place].append(a)
            lay = Lay(tuple(tuple(own) for own in slots), rest.partial)
            divides = all(
                size % math.prod(axis_sizes[a] for a in own) == 0
                for size, own in zip(slot_sizes, lay.slots, strict=True)
            )
            if divides and lay not in seen:
                seen.add(lay)
                yield lay


def _chunk(axis_sizes: tuple[int, ...], own: tuple[int, ...], device: Device) -> tuple[int, int]:
    """Which of how many chunks of a slot a device has."""
    index, ways = 0, 1
    for a in own:
        index = index * axis_sizes[a] + device[a]
        ways *= axis_sizes[a]
    return index, ways


def _devices(axis_sizes: tuple[int, ...], group: tuple[int, ...]) -> list[Device]:
    """One group over some axes: all other coordinates are those of the last device."""
    spans = [range(n) if a in group else range(n - 1, n) for a, n in enumerate(axis_sizes)]
    return list(itertools.product(*spans))


def _is_even(axis_sizes: tuple[int, ...], group: tuple[int, ...], at: Lay, after: Lay) -> bool:
    """Whether every device of a group has the same share of what every other one needs."""
    shares = set()
    devices = _devices(axis_sizes, group)
    for sender in devices:
        for receiver in devices:
            share = 1.0
            for own, new in zip(at.slots, after.slots, strict=True):
                i, m = _chunk(axis_sizes, own, sender)
                j, n = _chunk(axis_sizes, new, receiver)
                share *= max(0.0, min((i + 1) / m, (j + 1) / n) - max(i / m, j / n))
            shares.add(round(share, 9))
    return len(shares) == 1


def _swapped_over(axis_sizes: tuple[int, ...], at: Lay, after: Lay) -> tuple[int, ...] | None:
    """The fewest axes over which the parts only change places; None where they do more."""
    moved = [
        a
        for a in range(len(axis_sizes))
        if [a in own for own in (*at.slots, at.partial)]
        != [a in own for own in (*after.slots, after.partial)]
    ]
    groups = sorted(
        itertools.chain.from_iterable(
            itertools.combinations(range(len(axis_sizes)), k) for k in range(1, len(axis_sizes) + 1)
        ),
        key=len,
    )
    for group in groups:
        if set(moved) <= set(group) and _same_parts(axis_sizes, group, at, after):
            return group
    return None


def _same_parts(axis_sizes: tuple[int, ...], group: tuple[int, ...], at: Lay, after: Lay) -> bool:
    """Whether in every group as many devices hold each part after as before."""
    others = tuple(a for a in range(len(axis_sizes)) if a not in group)
    for corner in _devices(axis_sizes, others):
        members = [
            tuple(own[a] if a in group else corner[a] for a in range(len(axis_sizes)))
            for own in _devices(axis_sizes, group)
        ]
        parts = []
        for lay in (at, after):
            parts.append(
                sorted(
                    tuple(_chunk(axis_sizes, own, device) for own in (*lay.slots, lay.partial))
                    for device in members
                )
            )
        if parts[0] != parts[1]:
            return False
    return True
