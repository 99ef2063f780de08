"""Notes: said once for layers that are alike."""

from __future__ import annotations

from solver.notes import once


def test_what_differs_in_layers_only_is_said_once() -> None:
    notes = (
        "a.0.q to a.0.o: 1.5 µs",
        "b: 1.5 µs",
        "a.1.q to a.1.o: 1.5 µs",
        "a.1.q to a.1.o: 2 µs",
    )
    assert once(notes) == (
        "a.0.q to a.0.o: 1.5 µs; other layers alike",
        "b: 1.5 µs",
        "a.1.q to a.1.o: 2 µs",
    )
