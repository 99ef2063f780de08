"""The main function of a worker's child processes, and their connection to the parent."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from meshwright.common.process_pool import begin

NAMED = "mw:"  # prefix of the module name in process lists: mw:search


class ParentMessages:
    """Sends JSON values to the parent; safe to use from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def write(self, value: dict[str, Any]) -> None:
        written = json.dumps(value, separators=(",", ":")).encode()
        with self._lock:  # a long message is written in pieces
            self._connection.send_bytes(written)


def answer(work: str, arguments: tuple[Any, ...], parent: Connection, output: Connection) -> None:
    """Read the parent's input in a new process and call `module:function` with it.

    The function takes the bytes, `ParentMessages` and the arguments. output: receives standard
    output and standard error.
    """
    begin()
    os.setpgid(0, 0)
    with suppress(OSError):  # only Linux has the file
        Path("/proc/self/comm").write_text(NAMED + work.partition(":")[0].rpartition(".")[2])
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    output.close()
    resolve_name(work)(parent.recv_bytes(), ParentMessages(parent), *arguments)
