"""What the processes of the tests work out."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

from meshwright.schema import PlanError

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
