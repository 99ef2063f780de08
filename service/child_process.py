"""What the child processes of a worker have in common: lines of JSON, ending with the parent."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from typing import Any, TextIO

PR_SET_PDEATHSIG = 1


class Lines:
    """JSON, one value a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, value: dict[str, Any]) -> None:
        self._stream.write(json.dumps(value, separators=(",", ":")) + "\n")
        self._stream.flush()


def converse() -> tuple[bytes, Lines]:
    """The line that the parent sent, and where to answer. From now on it ends with its parent."""
    _end_with_parent()
    lines = Lines(_private_stdout())
    text = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_pipe, daemon=True).start()
    return text, lines


def _private_stdout() -> TextIO:
    """The pipe to the parent; what a library prints goes to standard error instead."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "w", encoding="utf-8")


def _end_with_parent() -> None:
    """On Linux the kernel ends this process with the thread that started it."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent or parent == 1:
            os._exit(1)


def _end_with_pipe() -> None:
    """Elsewhere, and for safety: the parent holds the other end of standard input."""
    sys.stdin.buffer.read()
    os._exit(1)
