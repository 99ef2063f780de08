"""What the processes of the tests work out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from meshwright.schema import PlanError
from meshwright_service.processes.child_main import ParentMessages

Sent = Mapping[str, bytes]


def who(sent: Sent) -> dict[int, bytes]:
    """Its process, and what was sent."""
    return {0: str(os.getpid()).encode(), 5: sent["text"][::-1]}


def refuses(sent: Sent) -> dict[int, bytes]:
    raise PlanError(f"not {sent['text'].decode()}", pointer="/stages")


def fails(sent: Sent) -> dict[int, bytes]:
    raise ZeroDivisionError(sent["text"])


def dies(sent: Sent) -> dict[int, bytes]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {0: sent["text"]}


def takes_memory(sent: Sent) -> dict[int, bytes]:
    return {0: sent["text"] * (1 << 40)}


def stays(sent: Sent) -> dict[int, bytes]:
    """Until it is killed. Writes its process id into a file first."""
    place = Path(sent["file"].decode())
    place.with_suffix(".part").write_text(str(os.getpid()))
    place.with_suffix(".part").rename(place)
    threading.Event().wait()
    return {}


def repeats(sent: bytes, messages: ParentMessages, argument: str, times: int) -> None:
    """Says what it was given, so many times."""
    for _ in range(times):
        messages.write({"argument": argument, "bytes": len(sent)})


def talks_and_dies(sent: bytes, messages: ParentMessages, size: int) -> None:
    """Prints that many bytes and more, and is killed."""
    del sent, messages
    os.write(1, b"." * size)
    os.write(2, b"last words")
    os.kill(os.getpid(), 9)


def waits(sent: bytes, messages: ParentMessages) -> None:
    """Says its process, and runs until it is killed."""
    del sent
    messages.write({"process": os.getpid()})
    time.sleep(600)
