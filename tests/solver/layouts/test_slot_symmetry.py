"""Families of layouts: what the renaming of alike slots cannot tell apart."""

from __future__ import annotations

import numpy as np

from meshwright_solver.layouts.slot_symmetry import families_of
from meshwright_solver.layouts.states import StateSpace


def test_alike_slots_share_a_source_and_others_do_not():
    # one axis of 2 on three slots: two of 8, and one of 3 that it cannot cut
    space = StateSpace((8, 8, 3), (2,), 64, False)
    families = families_of(space)
    states = space.states.tolist()
    assert states == [[0], [1], [3], [4]]  # on the first, on the second, whole, partial
    assert families.family[0] == families.family[1]
    assert len({int(families.family[k]) for k in (0, 2, 3)}) == 3
    assert len(families.sources) == 3


def test_a_renaming_makes_a_layout_its_source_and_keeps_who_is_together():
    space = StateSpace((8, 8, 8), (2, 2, 4), 512, False)
    families = families_of(space)
    for k, state in enumerate(space.states):
        to = families.renamed[families.renaming[k]]
        assert to[k] == families.sources[families.family[k]]
        renamed = space.states[to[k]]
        together = state[:, None] == state[None, :]
        assert ((renamed[:, None] == renamed[None, :]) == together).all()
    # axes on three alike slots, whole or partial: partitions of three axes, by what each part is
    patterns = {
        tuple(c if c >= 3 else list(dict.fromkeys(state)).index(c) for c in state)
        for state in space.states.tolist()
    }
    canonical = {tuple(space.states[s].tolist()) for s in families.sources}
    assert len(canonical) == len(families.sources) <= len(patterns)


def test_a_value_without_slots_has_every_layout_for_itself():
    families = families_of(StateSpace((), (2, 2), 4, False))
    assert np.array_equal(families.sources, np.arange(4))
