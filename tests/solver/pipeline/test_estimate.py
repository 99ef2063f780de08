"""What configurations are estimated to hold, by the formulas of the papers."""

from __future__ import annotations

import numpy as np
import pytest

from solver.pipeline.estimate import held_of
from solver.pipeline.schedules import schedule


def of_ranks(kind: str, ranks: int, count: int, ratio: float) -> list[float]:
    """In microbatches of a whole rank."""
    order = schedule(kind, ranks, 4 * ranks, count)
    held = np.bincount(order.rank_of, held_of(order, ratio)) / count
    return [float(own) for own in held]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_whole_backward_passes_hold_what_the_papers_say(ranks: int) -> None:
    """1f1b: p - r (Narayanan et al. 2019). Interleaved, rank 0: (p - 1) / (p v) more than 1f1b
    (Korthikanti et al. 2022, section 4.2.3). What waits does not exist."""
    assert of_ranks("1f1b", ranks, 1, 3.0) == [ranks - r for r in range(ranks)]
    for count in (2, 3, 5):
        most = of_ranks("interleaved_1f1b", ranks, count, 3.0)[0]
        assert most == pytest.approx(ranks * (1 + (ranks - 1) / (ranks * count)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_what_waits_counts_as_so_much_more(ranks: int) -> None:
    """zb_h1 holds p microbatches on every rank; rank r makes weights' halves r backwards late, and
    has one more microbatch in between than that: so many may wait for them."""
    assert of_ranks("zb_h1", ranks, 1, 1.0) == [ranks] * ranks
    for ratio in (2.0, 5.0):
        expected = [ranks - r - 1 + (r + 1) * ratio for r in range(ranks)]
        assert of_ranks("zb_h1", ranks, 1, ratio) == expected
