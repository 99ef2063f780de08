"""A measurement that is told to end takes what it has begun with it."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.service.conftest import ROOT, is_there, until

MEASURING = """
import subprocess, sys
from contextlib import ExitStack
from bench.ending import end_in_order
end_in_order()
with ExitStack() as stack:
    begun = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
    stack.callback(begun.wait)
    stack.callback(begun.kill)
    print(begun.pid, flush=True)
    begun.wait()
"""


def test_what_was_begun_ends_too() -> None:
    measuring = subprocess.Popen(
        [sys.executable, "-c", MEASURING], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert measuring.stdout is not None
    begun = int(measuring.stdout.readline())
    measuring.send_signal(signal.SIGTERM)
    assert measuring.wait(timeout=20) == 128 + signal.SIGTERM
    until(lambda: not is_there(begun))
    measuring.stdout.close()
