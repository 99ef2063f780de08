"""Start-up of a job: ranks meet in the store of the process group.

A rank that fails reports the reason, and the others end at once. If a rank is lost, the others end
after the timeout and name it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore  # typed here only

from meshwright.runtime.torch.heartbeat import Pulse
from meshwright.schema import InvalidInput, RankLost

READY, FAILED = "ready", "failed: "
FIRST = "rank 0"
# chosen: enough for another process to be scheduled and to read one value
LAST_WORD = timedelta(seconds=5)
_numbers = count()


class StartUp:
    """One start of a job on this rank. All ranks create the same number in the same order."""

    def __init__(self, store: Store, rank: int, world_size: int, timeout_s: float) -> None:
        self._store = PrefixStore(f"meshwright/start/{next(_numbers)}", store)
        self._rank = rank
        self._world_size = world_size
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._meetings = count()
        self._meeting = -1

    def meet(self, doing: str) -> None:
        """Wait for all ranks; raises RankLost with the first that is missing or has failed."""
        self._meeting = next(self._meetings)
        self._write(READY)
        for rank in range(self._world_size):
            state = self._read(rank, doing)
            if state != READY:
                self._leave(missing=None)
                why = state.removeprefix(FAILED)
                raise RankLost(f"rank {rank} failed while {doing}: {why}")

    def renew(self) -> None:
        """Restart the timeout: all ranks were busy, each for a time of its own."""
        self._deadline = time.monotonic() + self._timeout_s

    def fail(self, why: BaseException) -> None:
        """Report the failure of this rank to the others, so that they do not wait for it.

        Raises RankLost if another rank caused the failure: a failed collective does not name the
        lost rank.
        """
        if isinstance(why, RankLost):
            return
        if type(why) is RuntimeError or isinstance(why, dist.DistError):
            self.meet("placing the parameters")
            return
        self._meeting = next(self._meetings)
        with suppress(RankLost):  # the store is gone, and with it its readers
            self._write(FAILED + str(why))
        self._leave(missing=None)

    def pulse(self, silence_s: float) -> Pulse:
        """The heartbeat that detects lost ranks after the start."""
        store = PrefixStore("pulse", self._store)
        return Pulse(store, self._rank, self._world_size, silence_s=silence_s, holder=_holder())

    def _read(self, rank: int, doing: str) -> str:
        left = max(self._deadline - time.monotonic(), 0.001)
        try:
            self._store.wait([self._key(rank)], timedelta(seconds=left))
            return self._store.get(self._key(rank)).decode()
        except dist.DistNetworkError as why:
            raise _without_store(why) from None
        except RuntimeError:  # file stores and TCP stores have no narrower class in common
            self._leave(missing=rank)
            raise RankLost(
                f"rank {rank} of {self._world_size} did not come within {self._timeout_s:g} s of "
                f"the start, while {doing}; see what its own process says"
            ) from None

    def _leave(self, missing: int | None) -> None:
        """Leave the start. The first rank leaves last, as most stores end with it."""
        with suppress(RuntimeError):
            self._store.set(f"left/{self._rank}", READY)
            others = set(range(1, self._world_size)) - {missing}
            if self._rank == 0 and others:
                self._store.wait([f"left/{rank}" for rank in sorted(others)], LAST_WORD)

    def _write(self, state: str) -> None:
        try:
            self._store.set(self._key(self._rank), state)
        except dist.DistNetworkError as why:
            raise _without_store(why) from None

    def _key(self, rank: int) -> str:
        return f"{self._meeting}/{rank}"


def _without_store(why: Exception) -> RankLost:
    return RankLost(f"{_holder()}, which holds the store of the job, is gone: {why}")


def _holder() -> str:
    """The name of the process that has the store."""
    of_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return "torchrun's agent" if of_agent else FIRST


def joined(device: torch.device, timeout_s: float) -> tuple[StartUp, Callable[[], None]]:
    """Join the process group of all ranks.

    Returns the start, and a function that destroys the group if it was created here.
    """
    if dist.is_initialized():
        world = dist.group.WORLD
        assert world is not None
        rank, size = dist.get_rank(), dist.get_world_size()
        return StartUp(world.get_group_store(), rank, size, timeout_s), lambda: None
    store, rank, size = rendezvous(timeout_s)
    start = StartUp(store, rank, size, timeout_s)
    start.meet("joining")
    backend = "nccl" if device.type == "cuda" else "gloo"
    timeout = timedelta(seconds=timeout_s)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    return start, dist.destroy_process_group


def rendezvous(timeout_s: float) -> tuple[Store, int, int]:
    """The store, the rank and the world size, from the variables of the launcher (torchrun).

    The store does not wait for workers, so that a missing rank can be named.
    """
    missing = [
        n for n in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE") if n not in os.environ
    ]
    if missing:
        raise InvalidInput(
            f"there is no process group, and {missing[0]} is not set to make one; start the "
            "processes with torchrun, or call torch.distributed.init_process_group first"
        )
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    try:
        store: Store = TCPStore(
            host,
            port,
            size,
            is_master=rank == 0 and _holder() == FIRST,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except dist.DistError as why:
        raise RankLost(
            f"{_holder()}, which holds the store of the job, is not at {host}:{port}: {why}"
        ) from None
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"meshwright/{restart}", store), rank, size
