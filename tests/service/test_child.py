"""A child process of a worker: what it says is heard, and nothing is left of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from service.child import TAIL, Child
from service.child_process import NAMED
from tests.service.conftest import is_there, until


@contextmanager
def child(work: str, *arguments: Any, sent: bytes = b"") -> Iterator[Child]:
    made = Child(f"tests.service.answers:{work}", arguments, sent)
    try:
        yield made
    finally:
        made.end()
    until(lambda: not is_there(made.pid))


def test_it_is_sent_bytes_and_arguments_and_answers_with_messages() -> None:
    large = b"x" * 5_000_000
    with child("repeats", "a", 2, sent=large) as made:
        messages = [made.next(20) for _ in range(3)]
    told = {"argument": "a", "bytes": len(large), "process": made.pid}
    assert messages == [told, told, {"lost": "the process ended with code 0\n"}]


def test_of_one_that_is_lost_the_last_words_are_kept() -> None:
    with child("talks_and_dies", TAIL) as made:
        lost = made.next(20)
    assert lost is not None
    assert lost["lost"].startswith("the process ended with code -9\n")
    assert lost["lost"].endswith("last words")
    assert len(lost["lost"]) < TAIL + 100


def test_it_has_a_name_and_a_group_of_its_own() -> None:
    with child("waits") as made:
        assert made.next(20) == {"waits": True}
        assert Path(f"/proc/{made.pid}/comm").read_text() == f"{NAMED}answers\n"
        assert os.getpgid(made.pid) == made.pid
        assert made.next(0.01) is None


def test_one_that_is_interrupted_ends_as_its_program_says() -> None:
    with child("waits") as made:
        assert made.next(20) == {"waits": True}
        made.interrupt()
        lost = made.next(20)
        assert lost is not None
        assert "code -15" in lost["lost"]
        made.interrupt()  # of one that is gone


def test_where_the_process_that_is_copied_is_killed_the_next_child_begins_all_the_same() -> None:
    with child("waits") as first:
        assert first.next(20) == {"waits": True}
        copied = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        os.kill(copied, signal.SIGKILL)
        with child("waits") as second:
            assert second.next(20) == {"waits": True}
        assert first.next(0.01) is None  # and goes on
        assert forkserver._forkserver._forkserver_pid != copied  # type: ignore[attr-defined]


def test_its_files_are_closed() -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    with child("waits"):
        pass
    before = opened()
    for _ in range(3):
        with child("waits"):
            pass
    until(lambda: opened() <= before)
