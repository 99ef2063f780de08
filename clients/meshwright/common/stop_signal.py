"""Early stop of a search by a signal; a planner polls it as its `stop`."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

Stop = Callable[[], bool]


def never() -> bool:
    """A stop that never comes."""
    return False


class StopSignal:
    """A stop that returns True after the first signal of its number.

    The second signal runs the previous handler. Enter the object in the main thread. Searches may
    call it from any thread. It works while the main thread runs compiled code, where Python runs no
    signal handlers.

    asked: the signal has arrived. heeded: a search has seen it, and may have ended early.
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
        if self._before is not signal.SIG_IGN:  # an ignored signal stays ignored
            self._listener, self._bell = socket.socketpair()
            self._bell.setblocking(False)
            self._woken = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, daemon=True).start()
            signal.signal(self._number, self._handle)
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
            self._bell.close()  # ends the listener, which closes the other end

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(self._number, self._before)

    def _listen(self) -> None:
        with self._listener:
            while numbers := self._listener.recv(64):
                if self._number in numbers:
                    self.asked = True
