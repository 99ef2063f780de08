"""Arenas of the C heap, counted by glibc in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ALLOCATING = """
import ctypes, sys, threading
from meshwright_service.common.malloc_arenas import keep_arenas_few
if sys.argv[1] == "few":
    assert keep_arenas_few()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
together = threading.Barrier(12)

def allocate():
    together.wait()
    library.malloc(ctypes.c_size_t(50_000))
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_threads_share_two_arenas() -> None:
    assert arenas("few") <= 2 < arenas("many")


def arenas(which: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATING, which], capture_output=True, text=True, check=True
    )
    return done.stdout.count("<heap nr=")
