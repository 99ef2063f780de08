"""Memory limits of child processes."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

LEAST_MEMORY = 2**30  # bytes; chosen: the address space of a new process is more than half of it
SHARE = 0.8  # chosen: share of the machine for searches; the service and the system have the rest
CONTAINER = Path("/sys/fs/cgroup/memory.max")  # Linux control groups, version 2


def limit_memory(wanted: int) -> int:
    """Limit the address space of this process, on Linux only; return the limit in bytes."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return limit


def whole_memory() -> int:
    """The memory of the machine, or the limit of its container, in bytes."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # ValueError: "max", no bound
        memory_bytes = min(memory_bytes, int(CONTAINER.read_text()))
    return memory_bytes


def share_of_memory(workers: int, processes: int) -> int:
    """The memory limit of each search process, in bytes.

    workers: number of concurrent searches. processes: of each search. A search at its limit ends
    with the best plan so far, before the kernel kills a process.
    """
    return max(LEAST_MEMORY, int(whole_memory() * SHARE) // max(1, workers * processes))
