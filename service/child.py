"""A search or a verification in a child process, seen from its parent."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Any, cast

TAIL = 8000  # bytes of standard error that are kept of a process that was lost; chosen


class Child:
    """One child process in a group of its own. Start, ask and kill it from one thread."""

    def __init__(self, module: str, arguments: Sequence[str], request: bytes) -> None:
        """Start `python -m module arguments…`. `request` is JSON on one line."""
        self._errors = cast(IO[bytes], tempfile.TemporaryFile())  # noqa: SIM115  closed by end()
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._converse, args=(request,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message; None where none came in time. {"lost": …} when there will be none."""
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None
        return {"lost": self._last_words()} if message is None else message

    def interrupt(self) -> None:
        """Ask the process to end soon, with what it has."""
        self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Kill what is left of the process group and clean up."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)
        self._reader.join(timeout=10)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _converse(self, request: bytes) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(request + b"\n")
            self._process.stdin.flush()
        with contextlib.suppress(ValueError):  # half a line: it was killed while it wrote
            for line in self._process.stdout:
                self._messages.put(json.loads(line))
        self._messages.put(None)

    def _last_words(self) -> str:
        code = self._process.wait(timeout=10)
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - TAIL))
        said = self._errors.read().decode(errors="replace")
        return f"the process ended with code {code}\n{said}"
