"""Blocks of random ops and values, for cuts."""

from __future__ import annotations

from hypothesis import strategies as st

from meshwright_solver.stage.recompute.min_cut import BlockValue


def block_of(data: st.DataObject) -> tuple[list[int], list[BlockValue]]:
    """Up to six ops, and up to seven values that some of them make, read or leave behind."""
    ops = list(range(data.draw(st.integers(1, 6))))
    values = [
        BlockValue(
            data.draw(st.integers(1, 30)),
            data.draw(st.sampled_from([None, *ops])),
            data.draw(st.lists(st.sampled_from(ops), max_size=3, unique=True)),
            data.draw(st.booleans()),
        )
        for _ in range(data.draw(st.integers(1, 7)))
    ]
    return ops, values
