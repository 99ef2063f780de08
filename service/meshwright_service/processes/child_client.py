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
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from meshwright_service.common.oom_kills import FOR_MEMORY, oom_kills
from meshwright_service.processes.child_main import answer
from meshwright_service.processes.forkserver import begun, pipe

TAIL = 8000  # bytes of what it printed that are kept of a process that was lost; chosen


class Child:
    """One child process in a group of its own. Start, ask and kill it from one thread.

    It begins in the background: the first of them waits for what it is a copy of to be loaded.
    """

    def __init__(self, work: str, arguments: Sequence[Any], request: bytes) -> None:
        """Have `module:function` answer a request; see child_process.answer."""
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._tail = bytearray()
        self._oom_kills = oom_kills()
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._wanted: signal.Signals | None = None  # that it gets as soon as it is there
        line, self._theirs = pipe(duplex=True)
        heard, self._said = pipe(duplex=False)
        given = (work, tuple(arguments), request, line)
        self._threads = [
            threading.Thread(target=self._converse, args=given, daemon=True),
            threading.Thread(target=self._listen, args=(heard,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self.end)  # multiprocessing would wait for it at the exit

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message; None where none came in time. {"lost": …, "killed": …} when there
        will be none: how it ended, and whether something else than lack of memory killed it."""
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None
        return self._lost() if message is None else message

    def interrupt(self) -> None:
        """Ask the process to end soon, with what it has."""
        self._send(signal.SIGTERM)

    def end(self) -> None:
        """Kill what is left of the process group and clean up."""
        atexit.unregister(self.end)
        self._send(signal.SIGKILL)
        for thread in self._threads:
            thread.join(timeout=10)

    def _send(self, number: signal.Signals) -> None:
        with self._lock:
            self._wanted = number
            if self._process is None or self._process.pid is None:
                return
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)  # one that has no group yet
            if number == signal.SIGKILL:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)

    def _converse(
        self, work: str, arguments: tuple[Any, ...], request: bytes, line: Connection
    ) -> None:
        with line:
            try:
                with self._theirs, self._said:
                    process = begun(answer, work, arguments, self._theirs, self._said)
            except (OSError, EOFError) as failure:
                self._tail += f"it could not be begun: {failure}".encode()
            else:
                with self._lock:
                    self._process = process
                if self._wanted is not None:
                    self._send(self._wanted)
                with suppress(EOFError, OSError, ValueError):  # ValueError: killed while it wrote
                    line.send_bytes(request)
                    while True:
                        self._messages.put(json.loads(line.recv_bytes()))
                process.join(timeout=10)
        self._messages.put(None)

    def _listen(self, heard: Connection) -> None:
        with heard, suppress(OSError):
            while said := os.read(heard.fileno(), TAIL):
                self._tail += said
                del self._tail[:-TAIL]

    def _lost(self) -> dict[str, Any]:
        self._threads[1].join(timeout=10)
        code = None if self._process is None else self._process.exitcode
        how = f"the process ended with code {code}"
        starved = oom_kills() - self._oom_kills
        if code == -signal.SIGKILL and starved > 0:
            how += f"; meanwhile the kernel counted {starved} {FOR_MEMORY}"
        is_killed = code == -signal.SIGKILL and not starved
        return {"lost": f"{how}\n{self._tail.decode(errors='replace')}", "killed": is_killed}
