"""Signals as the `stop` of a search."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from meshwright.common.stop_signal import StopSignal

NUMBER = signal.SIGUSR1


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """What the handler heard that was there before."""
    numbers: list[int] = []
    before = signal.signal(NUMBER, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(NUMBER, before)


def test_the_first_signal_asks_and_the_next_does_what_it_did_before(heard: list[int]) -> None:
    with StopSignal(NUMBER) as stop:
        assert not stop()
        signal.raise_signal(NUMBER)
        assert stop.asked
        assert not stop.heeded  # nobody was told
        assert stop()
        assert stop.heeded
        assert heard == []
        signal.raise_signal(NUMBER)
        assert heard == [NUMBER]
    signal.raise_signal(NUMBER)
    assert heard == [NUMBER] * 2


def test_afterwards_the_handler_is_back(heard: list[int]) -> None:
    with StopSignal(NUMBER) as stop:
        pass
    signal.raise_signal(NUMBER)
    assert heard == [NUMBER]
    assert not stop()


def test_who_ignores_the_signal_goes_on_doing_so(heard: list[int]) -> None:
    signal.signal(NUMBER, signal.SIG_IGN)
    with StopSignal(NUMBER) as stop:
        signal.raise_signal(NUMBER)
        assert not stop()
    assert heard == []


def test_other_threads_learn_of_it_while_compiled_code_runs_in_the_main_thread(
    heard: list[int],
) -> None:
    learnt: list[float] = []

    def look() -> None:
        os.kill(os.getpid(), NUMBER)
        while not stop():
            time.sleep(0.001)
        learnt.append(time.monotonic())

    with StopSignal(NUMBER) as stop:
        watcher = threading.Thread(target=look)
        watcher.start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 4_000_000)  # two seconds without Python
        ended = time.monotonic()
        watcher.join()
    assert learnt[0] < ended
    assert heard == []
