"""Requests that were understood lately, by the bytes of their bodies.

A training job's ranks and a controller that begins again send the same bytes: what they ask for is
the same as before, and need not be parsed and checked once more to be found.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

MOST = 4096  # requests; chosen: 1 MiB


class Remembered:
    """The request digest of a body. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: OrderedDict[bytes, str] = OrderedDict()

    def request(self, encoding: str, data: bytes) -> str | None:
        """What a body asks for, if somebody asked it lately."""
        key = _key(encoding, data)
        with self._lock:
            found = self._requests.get(key)
            if found is not None:
                self._requests.move_to_end(key)
            return found

    def keep(self, encoding: str, data: bytes, request: str) -> None:
        """Remember a body that was understood, and asks for no certificate."""
        key = _key(encoding, data)
        with self._lock:
            self._requests[key] = request
            self._requests.move_to_end(key)
            while len(self._requests) > MOST:
                self._requests.popitem(last=False)


def _key(encoding: str, data: bytes) -> bytes:
    made = hashlib.sha256(encoding.encode())
    made.update(b"\0")
    made.update(data)
    return made.digest()
