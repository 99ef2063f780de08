"""The C heap of a process that has many threads and lives for months.

glibc gives threads arenas of their own, up to eight a core, and memory that is free in one is of
no use in the others: 36,000 mixed requests leave 15 MiB so, with two arenas 8. Threads of Python
seldom allocate at the same time.
"""

from __future__ import annotations

import ctypes

ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h
ARENAS = 2  # chosen


def keep_arenas_few() -> bool:
    """Call before threads are begun. False where the C library is another than glibc."""
    library = ctypes.CDLL(None)
    return hasattr(library, "gnu_get_libc_version") and bool(library.mallopt(ARENA_MAX, ARENAS))
