"""The parent's side of a child process that runs a search, a solve or a verification."""

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
from meshwright_service.processes.forkserver import pipe, start_process

TAIL = 8000  # bytes of the output of a lost process that are kept; chosen


class Child:
    """One child process in its own process group. Use it from one thread.

    It starts in the background: the first one waits until the forkserver has loaded its modules.
    """

    def __init__(self, work: str, arguments: Sequence[Any], request: bytes) -> None:
        """Start a process that answers a request by `module:function`; see `child_main.answer`."""
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._tail = bytearray()
        self._oom_kills = oom_kills()
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pending_signal: signal.Signals | None = None  # sent when the process has started
        line, self._theirs = pipe(duplex=True)
        output, self._child_output = pipe(duplex=False)
        conversation = (work, tuple(arguments), request, line)
        self._threads = [
            threading.Thread(target=self._converse, args=conversation, daemon=True),
            threading.Thread(target=self._read_output, args=(output,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self.end)  # multiprocessing waits for its children at exit

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message, or None after `timeout_s`.

        {"lost": …, "killed": …} after the end of the process. lost: the exit code and the last
        output. killed: whether it was killed for another reason than lack of memory.
        """
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None
        return self._end_message() if message is None else message

    def interrupt(self) -> None:
        """Send SIGTERM: the process ends soon with its best result so far."""
        self._send(signal.SIGTERM)

    def end(self) -> None:
        """Kill the process group and join the threads."""
        atexit.unregister(self.end)
        self._send(signal.SIGKILL)
        for thread in self._threads:
            thread.join(timeout=10)

    def _send(self, number: signal.Signals) -> None:
        with self._lock:
            self._pending_signal = number
            if self._process is None or self._process.pid is None:
                return
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)  # it may have no group yet
            if number == signal.SIGKILL:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)

    def _converse(
        self, work: str, arguments: tuple[Any, ...], request: bytes, line: Connection
    ) -> None:
        with line:
            try:
                with self._theirs, self._child_output:
                    process = start_process(
                        answer, work, arguments, self._theirs, self._child_output
                    )
            except (OSError, EOFError) as failure:
                self._tail += f"it could not be begun: {failure}".encode()
            else:
                with self._lock:
                    self._process = process
                if self._pending_signal is not None:
                    self._send(self._pending_signal)
                with suppress(EOFError, OSError, ValueError):  # ValueError: killed in a write
                    line.send_bytes(request)
                    while True:
                        self._messages.put(json.loads(line.recv_bytes()))
                process.join(timeout=10)
        self._messages.put(None)

    def _read_output(self, connection: Connection) -> None:
        with connection, suppress(OSError):
            while output := os.read(connection.fileno(), TAIL):
                self._tail += output
                del self._tail[:-TAIL]

    def _end_message(self) -> dict[str, Any]:
        self._threads[1].join(timeout=10)
        code = None if self._process is None else self._process.exitcode
        reason = f"the process ended with code {code}"
        starved = oom_kills() - self._oom_kills
        if code == -signal.SIGKILL and starved > 0:
            reason += f"; meanwhile the kernel counted {starved} {FOR_MEMORY}"
        is_killed = code == -signal.SIGKILL and not starved
        return {"lost": f"{reason}\n{self._tail.decode(errors='replace')}", "killed": is_killed}
