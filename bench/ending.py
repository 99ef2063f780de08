"""How a measurement ends that is told to: with all that it has begun."""

from __future__ import annotations

import signal
import sys


def end_in_order() -> None:
    """SIGTERM ends this process as Ctrl-C does: through its `with`s, which end servers, workers
    and databases. Another one meanwhile is passed over."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)
