"""Requests that were understood lately, by the bytes of their bodies.

A training job's ranks and a controller that begins again send the same bytes: what they ask for is
the same as before, and need not be parsed and checked once more to be found.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict

from meshwright.schema.canonical import canonical_json
from service.planning import Asked

MOST = 4096  # requests
LONGEST = 2048  # characters of one, in JSON; chosen: all together 8 MiB, pins by the hundred aside


class Remembered:
    """What bodies ask for. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: OrderedDict[bytes, tuple[str, str]] = OrderedDict()

    def request(self, encoding: str, data: bytes) -> Asked | None:
        """What a body asks for, if somebody asked it lately; without its documents."""
        key = _key(encoding, data)
        with self._lock:
            found = self._requests.get(key)
            if found is not None:
                self._requests.move_to_end(key)
        if found is None:
            return None
        request, text = found
        return Asked(request, json.loads(text), ())

    def keep(self, encoding: str, data: bytes, asked: Asked) -> None:
        """Remember a body that was understood, and asks for no certificate."""
        text = canonical_json(asked.body)
        if len(text) > LONGEST:
            return
        key = _key(encoding, data)
        with self._lock:
            self._requests[key] = asked.request, text
            self._requests.move_to_end(key)
            while len(self._requests) > MOST:
                self._requests.popitem(last=False)


def _key(encoding: str, data: bytes) -> bytes:
    made = hashlib.sha256(encoding.encode())
    made.update(b"\0")
    made.update(data)
    return made.digest()
