"""What the child processes of a worker have in common: a line to the parent, ending with it."""

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

NAMED = "mw:"  # how process lists call them, with the module's name: mw:search


class ParentMessages:
    """To the parent: values of JSON, from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def write(self, value: dict[str, Any]) -> None:
        written = json.dumps(value, separators=(",", ":")).encode()
        with self._lock:  # a long message is written in pieces
            self._connection.send_bytes(written)


def answer(work: str, arguments: tuple[Any, ...], parent: Connection, said: Connection) -> None:
    """In a new process: has `module:function` answer what the parent sends.

    The function is given bytes, Messages and the arguments. What libraries print goes to `said`.
    """
    begin()
    os.setpgid(0, 0)
    with suppress(OSError):  # a name is a help, and other systems than Linux have no such file
        Path("/proc/self/comm").write_text(NAMED + work.partition(":")[0].rpartition(".")[2])
    for stream in (1, 2):
        os.dup2(said.fileno(), stream)
    said.close()
    resolve_name(work)(parent.recv_bytes(), ParentMessages(parent), *arguments)
