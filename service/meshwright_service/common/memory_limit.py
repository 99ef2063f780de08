"""How much memory a child process may take."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

LEAST_MEMORY = 2**30  # chosen: a process has more than half of that in addresses when it begins
SHARE = 0.8  # chosen: of the machine, for searches; the rest is for the service and the system
CONTAINER = Path("/sys/fs/cgroup/memory.max")  # of Linux's control groups, version 2


def limit_memory(wanted: int) -> int:
    """Bound the address space, on Linux, where the kernel keeps to it; the bound in bytes."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return limit


def whole_memory() -> int:
    """What the machine has, or its container may take, in bytes."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # ValueError: "max", no bound
        found = min(found, int(CONTAINER.read_text()))
    return found


def share_of_memory(workers: int, processes: int) -> int:
    """What each process of a search may take, in bytes, where so many workers search at one time,
    each in so many processes.

    A search that needs more ends with the best plan so far, before the kernel kills some process.
    """
    return max(LEAST_MEMORY, int(whole_memory() * SHARE) // max(1, workers * processes))
