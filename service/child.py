"""A search or a verification in a child process, seen from its parent."""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from service.child_process import answer
from service.copies import begun, pipe

TAIL = 8000  # bytes of what it printed that are kept of a process that was lost; chosen


class Child:
    """One child process in a group of its own. Start, ask and kill it from one thread."""

    def __init__(self, work: str, arguments: Sequence[Any], request: bytes) -> None:
        """Have `module:function` answer a request; see child_process.answer."""
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._tail = bytearray()
        self._line, theirs = pipe(duplex=True)
        self._said, said = pipe(duplex=False)
        with theirs, said:
            self._process = begun(answer, work, tuple(arguments), theirs, said)
        atexit.register(self.end)  # multiprocessing would wait for it at the exit
        self._threads = [
            threading.Thread(target=self._converse, args=(request,), daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
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
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def end(self) -> None:
        """Kill what is left of the process group and clean up."""
        atexit.unregister(self.end)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()  # one that has no group yet
        self._process.join(timeout=10)
        for thread in self._threads:
            thread.join(timeout=10)
        self._line.close()
        self._said.close()

    def _converse(self, request: bytes) -> None:
        with suppress(EOFError, OSError, ValueError):  # ValueError: killed while it wrote
            self._line.send_bytes(request)
            while True:
                self._messages.put(json.loads(self._line.recv_bytes()))
        self._messages.put(None)

    def _listen(self) -> None:
        with suppress(OSError):
            while said := os.read(self._said.fileno(), TAIL):
                self._tail += said
                del self._tail[:-TAIL]

    def _last_words(self) -> str:
        self._process.join(timeout=10)
        self._threads[1].join(timeout=10)
        said = self._tail.decode(errors="replace")
        return f"the process ended with code {self._process.exitcode}\n{said}"
