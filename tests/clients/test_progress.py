"""How far a search is, for people."""

from __future__ import annotations

import pytest

from meshwright.cli.progress import found_text
from meshwright.schema import Progress


@pytest.mark.parametrize(
    ("best_ns", "bound_ns", "said"),
    [
        (None, None, ""),
        (2e6, None, "best 2 ms"),
        (None, 1.5e6, "bound 1.5 ms"),
        (2e6, 1.5e6, "best 2 ms, bound 1.5 ms, gap 25.0 %"),  # 0.5 of 2
        (2e6, 2e6, "best 2 ms, bound 2 ms, gap 0 %"),
        (2e6, 0.0, "best 2 ms"),  # that bounds nothing
    ],
)
def test_the_best_cost_and_the_bound_are_told(
    best_ns: float | None, bound_ns: float | None, said: str
) -> None:
    progress = Progress(phase="p", done=0, total=1, incumbent_ns=best_ns, lower_bound_ns=bound_ns)
    assert found_text(progress) == said
