"""Which search found what, and when, for people."""

from __future__ import annotations

from meshwright.render import plan_text
from meshwright.render.history import history_lines
from meshwright.schema import Finding, Plan
from tests.clients.render.test_show import plan

HISTORY = (
    Finding(search="recursive_programming", mesh="gpu 8", cost_ns=4e6),
    Finding(search="exact", mesh="gpu 8", cost_ns=3e6),
    Finding(search="exact", mesh="gpu 8", cost_ns=2.5e6),
    Finding(search="exact", mesh="gpu0 4 × gpu1 2", cost_ns=2e6),
)


def test_of_one_search_on_one_mesh_the_last_is_told() -> None:
    assert list(history_lines(found(*HISTORY), (0.5, 1, 2, 3))) == [
        "recursive_programming found 4 ms after 500 ms on gpu 8",
        "exact found 2.5 ms after 2 s on gpu 8",
        "exact found 2 ms after 3 s on gpu0 4 × gpu1 2",
    ]


def test_without_times_they_are_told_without_them() -> None:
    lines = list(history_lines(found(*HISTORY)))
    assert lines[0] == "recursive_programming found 4 ms on gpu 8"
    text = " ".join(plan_text(found(*HISTORY)).split())
    assert " search recursive_programming found 4 ms on gpu 8 " in text


def test_of_many_the_first_and_the_last_are_told() -> None:
    many = [Finding(search="exact", mesh=f"m {k}", cost_ns=100 - k) for k in range(9)]
    assert list(history_lines(found(*many))) == [
        "exact found 100 ns on m 0",
        "… 5 more …",
        "exact found 94 ns on m 6",
        "exact found 93 ns on m 7",
        "exact found 92 ns on m 8",
    ]


def found(*history: Finding) -> Plan:
    """A plan with this history."""
    made = plan()
    return made.model_copy(
        update={"search": made.search.model_copy(update={"history": tuple(history)})}
    )
