"""The pulse of a job: every rank says in the store that it lives, and watches the one after it.

A rank that is found dead, or says itself why it ends, is written down once for the whole job, and
all others end with RankLost that names it. A collective fails on all whom the death reaches, and
does not say whose it is; so a rank that sees one fail waits for that word, and beats on meanwhile.
One that was left waiting by its backend all the same (gloo cannot be interrupted, and a machine
that is gone closes no connection) is ended by its own watch.
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
LOOKS = 5  # chosen: that have to find nothing new, so that one late beat is no death


class Pulse:
    """Of one rank. Every rank begins before all meet for the last time at their start.

    silence_s: without a beat for so long a rank counts as dead. holder: what holds the store.
    Suspended processes count as dead too; time in which this one is suspended counts for nobody.
    """

    def __init__(
        self, store: Store, rank: int, world_size: int, *, silence_s: float, holder: str
    ) -> None:
        # a connection of its own: others block theirs
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
        """Beat from now on, and watch."""
        if self._world_size == 1:
            return
        self._store.set(self._beat_of(self._rank), "0")
        for work in (self._beats, self._watches):
            thread = threading.Thread(target=work, name="meshwright-pulse", daemon=True)
            thread.start()
            self._threads.append(thread)

    def aborts(self, groups: Sequence[dist.ProcessGroup]) -> None:
        """Groups whose collectives are given up when a rank is lost."""
        self._groups = groups

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Around all that waits for other ranks: RankLost where one of them is gone."""
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
        """Tell the others that this rank ends, and why; what another one's end causes is none."""
        if self._threads and not isinstance(why, RankLost):
            said = f"rank {self._rank} failed: {str(why) or type(why).__name__}"
            with suppress(RuntimeError):  # the store is gone, and with it whoever would read this
                self._store.compare_set(LOST, "", said)

    def close(self) -> None:
        """Leave in order: nobody waits for this rank's beats any more."""
        if not self._threads:
            return
        self._ends.set()
        self._threads[0].join(self._silence_s)
        self._threads = []
        with suppress(RuntimeError):
            self._store.set(self._beat_of(self._rank), LEFT)
            self._store.set(self._left_of(self._rank), LEFT)
            if self._rank == 0:
                # the store of most jobs dies with the first rank, and others still read there
                others = [self._left_of(rank) for rank in range(1, self._world_size)]
                self._store.wait(others, timedelta(seconds=2 * self._period_s))

    def _check(self) -> None:
        if self._is_known.is_set():
            raise RankLost(self._lost)

    def _beats(self) -> None:
        for beat in count(1):
            if self._ends.wait(self._period_s) or self._is_known.is_set():
                return
            with suppress(RuntimeError):  # a store that does not answer: the other thread counts
                self._round(beat)
                self._rounds += 1

    def _round(self, beat: int) -> None:
        self._store.set(self._beat_of(self._rank), str(beat))
        if not self._store.check([LOST]):
            if not self._is_silent():
                return
            said = f"rank {self._watched} of {self._world_size} has been silent for "
            said += f"{self._silence_s:g} s: it died, or hangs; see what its own process says"
            self._store.compare_set(LOST, "", said)
        self._know(self._store.get(LOST).decode())

    def _is_silent(self) -> bool:
        """Whether the rank that is watched has not beaten in some looks; who left is watched no
        more, but the next one."""
        while self._watched != self._rank:
            own = self._store.get(self._beat_of(self._watched)).decode()
            if own != LEFT:
                self._silent = self._silent + 1 if own == self._last else 0
                self._last = own
                return self._silent >= LOOKS
            self._watched = (self._watched + 1) % self._world_size
            self._last, self._silent = "", 0
        return False

    def _watches(self) -> None:
        """The store, and whether this rank's work ends when a rank is lost."""
        silent = seen = 0
        while not self._is_known.wait(self._period_s):
            if self._ends.is_set():
                return
            silent = silent + 1 if self._rounds == seen else 0
            seen = self._rounds
            # a store that fails is asked as often as one that answers, then given up
            if silent > LOOKS:
                self._know(f"{self._holder}, which holds the store of the job, is gone")
        for group in self._groups:
            with suppress(RuntimeError):  # a backend that cannot
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
