"""How much memory a child process may take."""

from __future__ import annotations

import resource
import sys


def limit_memory(wanted: int) -> int:
    """Bound the address space, on Linux, where the kernel keeps to it; the bound in bytes."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return limit
