"""Slots of experts that are rounded up: parts of a sequence still fill equal parts of the slots."""

import numpy as np
import pytest

from meshwright_solver.verification.execution.kernels import KERNELS, KernelCall


def dispatch(x, index, slots):
    call = KernelCall("moe_dispatch", {}, (x, index), ((4, x.shape[0], slots, x.shape[2]),))
    (result,) = KERNELS["moe_dispatch"].forward(call)
    return result


# 12 tokens with 2 choices over 4 experts are 6 slots each; 8 and 12 are rounded up
@pytest.mark.parametrize("slots", [6, 8, 12])
def test_halves_of_a_sequence_fill_halves_of_the_slots(slots):
    x = np.random.default_rng(3).standard_normal((2, 12, 5))
    index = np.zeros((2, 12, 2), dtype=np.int64)
    whole = dispatch(x, index, slots)
    pieces = [dispatch(half, index[:, :6], slots // 2) for half in np.split(x, 2, axis=1)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=2), whole)


def test_every_choice_finds_a_slot():
    x = np.ones((1, 12, 1))
    index = np.zeros((1, 12, 2), dtype=np.int64)
    assert dispatch(x, index, 8).sum() == 24
