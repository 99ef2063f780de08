"""Heartbeats of a job: every rank writes heartbeats to the store, and watches the next rank.

The store records the first lost rank: one without heartbeats, or one that reports its own failure.
All other ranks end with RankLost, which names it. A failed collective does not name the lost rank,
so that a rank with a failed collective waits for the record and continues its heartbeats. The watch
thread ends a process whose backend hangs: gloo cannot be interrupted, and a lost machine closes no
connection.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count

import torch.distributed as dist
from torch._C._distributed_c10d import Store  # typed here only

from meshwright.schema import RankLost

_LOG = logging.getLogger(__name__)
LOST, LEFT = "lost", "left"
LOOKS = 5  # chosen: checks without a new heartbeat, so that one late heartbeat is no failure


class Pulse:
    """The heartbeat of one rank. Every rank begins before the last meeting of the start.

    A rank is lost after `silence_s` seconds without a heartbeat, also if its process is suspended.
    The time in which this process is suspended does not count. `holder` names the process of the
    store.
    """

    def __init__(
        self, store: Store, rank: int, world_size: int, *, silence_s: float, holder: str
    ) -> None:
        # a separate connection, because other users block theirs
        self._store: Store = store.clone()  # type: ignore[attr-defined]  # not typed in 2.13
        self._store.set_timeout(timedelta(seconds=silence_s))
        self._rank = rank
        self._world_size = world_size
        self._silence_s = silence_s
        self._holder = holder
        self._period_s = silence_s / LOOKS
        self._groups: Sequence[dist.ProcessGroup] = ()
        self._watched = (rank + 1) % world_size
        self._last, self._silent, self._rounds = "", 0, 0
        self._lost = ""
        self._is_known, self._ends, self._is_free = (threading.Event() for _ in range(3))
        self._is_free.set()
        self._threads: list[threading.Thread] = []

    def begin(self) -> None:
        """Start the heartbeat and watch threads."""
        if self._world_size == 1:
            return
        self._store.set(self._beat_of(self._rank), "0")
        for work in (self._beats, self._watches):
            thread = threading.Thread(target=work, name="meshwright-pulse", daemon=True)
            thread.start()
            self._threads.append(thread)

    def aborts(self, groups: Sequence[dist.ProcessGroup]) -> None:
        """Set the process groups to abort when a rank is lost."""
        self._groups = groups

    @contextmanager
    def guard(self) -> Iterator[None]:
        """A context for code that waits for other ranks; raises RankLost if one is lost."""
        self._check()
        self._is_free.clear()
        try:
            yield
        except RuntimeError as why:
            of_backend = type(why) is RuntimeError or isinstance(why, dist.DistError)
            if of_backend and self._threads:
                self._is_free.set()
                self._is_known.wait(2 * self._silence_s)
                self._check()
            raise
        finally:
            self._is_free.set()
        self._check()

    def fail(self, why: BaseException) -> None:
        """Report the failure of this rank to the others, unless another lost rank caused it."""
        if self._threads and not isinstance(why, RankLost):
            report = f"rank {self._rank} failed: {str(why) or type(why).__name__}"
            with suppress(RuntimeError):  # the store is gone, and with it its readers
                self._store.compare_set(LOST, "", report)

    def close(self) -> None:
        """Leave the job: no rank waits for the heartbeats of this one."""
        if not self._threads:
            return
        self._ends.set()
        self._threads[0].join(self._silence_s)
        self._threads = []
        with suppress(RuntimeError):
            self._store.set(self._beat_of(self._rank), LEFT)
            self._store.set(self._left_of(self._rank), LEFT)
            if self._rank == 0:
                # the store of most jobs ends with the first rank while others still read it
                others = [self._left_of(rank) for rank in range(1, self._world_size)]
                self._store.wait(others, timedelta(seconds=2 * self._period_s))

    def _check(self) -> None:
        if self._is_known.is_set():
            raise RankLost(self._lost)

    def _beats(self) -> None:
        for beat in count(1):
            if self._ends.wait(self._period_s) or self._is_known.is_set():
                return
            with suppress(RuntimeError):  # the watch thread counts failures of the store
                self._round(beat)
                self._rounds += 1

    def _round(self, beat: int) -> None:
        self._store.set(self._beat_of(self._rank), str(beat))
        if not self._store.check([LOST]):
            if not self._is_silent():
                return
            report = f"rank {self._watched} of {self._world_size} has been silent for "
            report += f"{self._silence_s:g} s: it died, or hangs; see what its own process says"
            self._store.compare_set(LOST, "", report)
        self._know(self._store.get(LOST).decode())

    def _is_silent(self) -> bool:
        """Whether the watched rank had no heartbeat in LOOKS checks.

        If the watched rank has left, the next rank is watched.
        """
        while self._watched != self._rank:
            beat = self._store.get(self._beat_of(self._watched)).decode()
            if beat != LEFT:
                self._silent = self._silent + 1 if beat == self._last else 0
                self._last = beat
                return self._silent >= LOOKS
            self._watched = (self._watched + 1) % self._world_size
            self._last, self._silent = "", 0
        return False

    def _watches(self) -> None:
        """Watch the store, and end the process if it hangs after a rank is lost."""
        silent = seen = 0
        while not self._is_known.wait(self._period_s):
            if self._ends.is_set():
                return
            silent = silent + 1 if self._rounds == seen else 0
            seen = self._rounds
            # the store is lost after LOOKS rounds without an answer
            if silent > LOOKS:
                self._know(f"{self._holder}, which holds the store of the job, is gone")
        for group in self._groups:
            with suppress(RuntimeError):  # the backend does not support abort
                group.abort()
        if not self._is_free.wait(self._silence_s):
            _LOG.critical("rank %d ends, its backend hangs: %s", self._rank, self._lost)
            logging.shutdown()
            os._exit(1)

    def _know(self, lost: str) -> None:
        self._lost = lost
        self._is_known.set()

    def _beat_of(self, rank: int) -> str:
        return f"beat/{rank}"

    def _left_of(self, rank: int) -> str:
        return f"left/{rank}"
