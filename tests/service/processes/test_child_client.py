"""A child process of a worker: what it says is heard, and nothing is left of it."""

from __future__ import annotations

import multiprocessing.forkserver
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from meshwright_service.processes import forkserver
from meshwright_service.processes.child_client import TAIL, Child
from meshwright_service.processes.child_main import NAMED
from tests.service.conftest import is_there, until


@contextmanager
def child(work: str, *arguments: Any, sent: bytes = b"") -> Iterator[Child]:
    made = Child(f"tests.service.answers:{work}", arguments, sent)
    try:
        yield made
    finally:
        made.end()


@contextmanager
def waiting() -> Iterator[tuple[Child, int]]:
    """One that runs, and its process; that is gone afterwards."""
    with child("waits") as made:
        message = made.next(20)
        assert message is not None
        yield made, message["process"]
    until(lambda: not is_there(message["process"]))


def copied() -> int:
    """The process that is copied."""
    return int(multiprocessing.forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]


def test_it_is_sent_bytes_and_arguments_and_answers_with_messages() -> None:
    large = b"x" * 5_000_000
    with child("repeats", "a", 2, sent=large) as made:
        messages = [made.next(20) for _ in range(3)]
    told = {"argument": "a", "bytes": len(large)}
    lost = {"lost": "the process ended with code 0\n", "killed": False}
    assert messages == [told, told, lost]


def test_of_one_that_is_lost_the_last_words_are_kept() -> None:
    with child("talks_and_dies", TAIL) as made:
        lost = made.next(20)
    assert lost is not None
    assert lost["lost"].startswith("the process ended with code -9\n")
    assert lost["lost"].endswith("last words")
    assert len(lost["lost"]) < TAIL + 100


def test_it_has_a_name_and_a_group_of_its_own() -> None:
    with waiting() as (made, process):
        assert Path(f"/proc/{process}/comm").read_text() == f"{NAMED}answers\n"
        assert os.getpgid(process) == process
        assert made.next(0.01) is None


def test_one_that_is_interrupted_ends_as_its_program_says() -> None:
    with waiting() as (made, _):
        made.interrupt()
        lost = made.next(20)
        assert lost is not None
        assert "code -15" in lost["lost"]
        made.interrupt()  # of one that is gone


def test_one_that_is_ended_before_it_has_begun_is_gone_and_its_parent_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_begin, begun = threading.Event(), []

    def late(*given: Any) -> BaseProcess:
        may_begin.wait()
        begun.append(forkserver.start_process(*given))
        return begun[0]

    monkeypatch.setattr("meshwright_service.processes.child_client.start_process", late)
    with child("waits") as made:
        assert made.next(0.01) is None
        made.interrupt()
        threading.Timer(0.1, may_begin.set).start()
    until(lambda: begun and begun[0].exitcode is not None)


def test_where_the_process_that_is_copied_is_killed_the_next_child_begins_all_the_same() -> None:
    with waiting() as (first, _):
        before = copied()
        os.kill(before, signal.SIGKILL)
        with waiting():
            assert copied() != before
        assert first.next(0.01) is None  # it goes on


def test_one_that_cannot_begin_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> BaseProcess:
        raise OSError("Too many open files")

    monkeypatch.setattr("meshwright_service.processes.child_client.start_process", refuse)
    with child("waits") as made:
        lost = made.next(20)
    assert lost is not None
    assert lost["lost"].endswith("it could not be begun: Too many open files")


def test_its_files_are_closed() -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    with waiting():
        pass
    before = opened()
    for _ in range(3):
        with waiting():
            pass
    until(lambda: opened() <= before)
