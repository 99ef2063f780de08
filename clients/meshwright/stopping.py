"""The wish that a search ends early: a signal that a planner asks for as its `stop`."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

Stop = Callable[[], bool]


def never() -> bool:
    """A stop that nobody asks for."""
    return False


class StopSignal:
    """Says so from the first signal of its number on; the next one does what it did before.

    Enter it in the main thread. `asked`: the signal has come. `heeded`: a search was told so, and
    may have ended for it. Searches may call it from any thread, and learn of the signal even while
    the main thread is in compiled code, where no handler of Python's runs.
    """

    def __init__(self, number: signal.Signals) -> None:
        self.asked = False
        self.heeded = False
        self._number = number
        self._before: Any = None

    def __call__(self) -> bool:
        if self.asked:
            self.heeded = True
        return self.asked

    def __enter__(self) -> StopSignal:
        self._before = signal.getsignal(self._number) or signal.SIG_DFL
        if self._before is not signal.SIG_IGN:  # who ignores it does so on purpose
            self._listener, self._bell = socket.socketpair()
            self._bell.setblocking(False)
            self._woken = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, daemon=True).start()
            signal.signal(self._number, self._heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not signal.SIG_IGN:
            signal.signal(self._number, self._before)
            signal.set_wakeup_fd(self._woken)
            self._bell.close()  # the listener ends, and closes the other end

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(self._number, self._before)

    def _listen(self) -> None:
        with self._listener:
            while numbers := self._listener.recv(64):
                if self._number in numbers:
                    self.asked = True
