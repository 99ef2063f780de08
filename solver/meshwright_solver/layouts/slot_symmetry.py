"""Symmetry of slots: layouts that differ only by the names of interchangeable slots.

Slots that any axes cut in the same ways are interchangeable. The path between two layouts costs the
same with such slots renamed, so the search starts from one source of each family only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.layouts.states import REPLICATED, StateSpace

Classes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Families:
    """The families of a space's layouts.

    sources: (families,) one layout of each. family, renaming: (layouts,) the family of every
    layout, and the renaming of slots that makes it the family's source. renamed: (renamings,
    layouts) the image of each layout; -1 where it is no layout, which no layout of the family can
    reach.
    """

    sources: IntArray
    family: IntArray
    renaming: IntArray
    renamed: NDArray[np.int32]


def families_of(space: StateSpace) -> Families:
    """The families of a space, shared by spaces with equal layouts and interchangeable slots."""
    return cached_families(
        space.states.tobytes(), space.slots, space.axis_sizes, _slot_classes(space)
    )


@lru_cache(maxsize=64)
def cached_families(
    content: bytes, n: int, axis_sizes: tuple[int, ...], classes: Classes
) -> Families:
    axes = len(axis_sizes)
    count = len(content) // (8 * axes) if axes else 1
    states = np.frombuffer(content, dtype=np.int64).reshape(count, axes).copy()
    members = np.array([slot for slots in classes for slot in slots], dtype=np.int64)
    ends = np.cumsum([len(slots) for slots in classes], dtype=np.int64)
    names = np.tile(np.arange(n + 3), (count, 1))
    _compiled_names(states, members, ends, names)
    unique, renaming = np.unique(names, axis=0, return_inverse=True)
    renaming = renaming.reshape(-1)
    weights = (n + 3) ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    keys = states @ weights
    renamed = np.stack([_positions(keys, row[states] @ weights) for row in unique])
    chosen = renamed[renaming, np.arange(count)]
    sources, family = np.unique(chosen, return_inverse=True)
    return Families(sources.astype(np.int64), family.reshape(-1), renaming, renamed)


def _positions(keys: IntArray, wanted: IntArray) -> NDArray[np.int32]:
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    return np.where(keys[at] == wanted, at, -1).astype(np.int32)


def _names(states: IntArray, members: IntArray, ends: IntArray, names: IntArray) -> None:
    """Rename slots by first use: the first axis on a slot of a class takes the class's first slot.

    The slots that no axis uses keep their order.
    """
    for s in range(len(states)):
        first = 0
        for end in ends:
            place = first
            for turn in range(states.shape[1]):
                at = states[s, turn]
                is_new = False
                for slot in members[first:end]:
                    is_new |= slot == at
                for before in states[s, :turn]:
                    is_new &= before != at
                if is_new:
                    names[s, at] = members[place]
                    place += 1
            for slot in members[first:end]:
                is_left = True
                for at in states[s]:
                    is_left &= at != slot
                if is_left:
                    names[s, slot] = members[place]
                    place += 1
            first = end


_compiled_names = cast(
    Callable[[IntArray, IntArray, IntArray, IntArray], None],
    njit(cache=True, nogil=True)(_names),
)


def _slot_classes(space: StateSpace) -> Classes:
    """Classes of slots that any axes cut in the same ways."""
    if space.spans or space.counts or space.load:
        return _slot_classes_by_cuts(space)
    # without spans the common divisor of a size and the mesh determines its cuts
    everyone = prod(space.axis_sizes)
    shared = tuple([gcd(size, everyone) for size in space.slot_sizes])
    return _slot_classes_of_sizes(shared, space.axis_sizes)


@lru_cache(maxsize=256)
def _slot_classes_of_sizes(shared: tuple[int, ...], axis_sizes: tuple[int, ...]) -> Classes:
    return _slot_classes_by_cuts(StateSpace(shared, axis_sizes, 1, has_gradient=False))


def _slot_classes_by_cuts(space: StateSpace) -> Classes:
    n, axes = space.slots, len(space.axis_sizes)
    subsets = np.array(list(product((False, True), repeat=axes)), dtype=np.bool_)
    on = subsets.reshape(1, len(subsets), axes)
    states = np.where(on, np.arange(n)[:, None, None], n + REPLICATED)
    states = states.reshape(n * len(subsets), axes)
    local = np.where(space.valid(states), space.local_bytes(states), -1.0)
    local = local.reshape(n, len(subsets))
    classes: dict[bytes, list[int]] = {}
    for slot in range(n):
        classes.setdefault(local[slot].tobytes(), []).append(slot)
    return tuple([tuple(slots) for slots in classes.values()])
