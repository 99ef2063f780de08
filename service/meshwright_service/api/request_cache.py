"""Requests that were understood lately, by the bytes of their bodies.

A training job's ranks and a controller that begins again send the same bytes: what they ask for is
the same as before, and need not be parsed and checked once more to be found.
"""

from __future__ import annotations

import hashlib
import json

from meshwright.schema.canonical import canonical_json
from meshwright_service.api.plan_request import Asked
from meshwright_service.common.content_encodings import Bytes
from meshwright_service.common.lru_cache import Latest

MOST = 4096  # requests
LONGEST = 2048  # characters of one, in JSON; chosen: all together 8 MiB, pins by the hundred aside


class Remembered:
    """What bodies ask for. Safe to share between threads."""

    def __init__(self) -> None:
        self._requests: Latest[bytes, tuple[str, str]] = Latest(MOST)

    def request(self, encoding: str, data: Bytes) -> Asked | None:
        """What a body asks for, if somebody asked it lately; without its documents."""
        found = self._requests.get(_key(encoding, data))
        if found is None:
            return None
        request, text = found
        return Asked(request, json.loads(text), ())

    def keep(self, encoding: str, data: Bytes, asked: Asked) -> None:
        """Remember a body that was understood, and asks for no certificate."""
        text = canonical_json(asked.body)
        if len(text) <= LONGEST:
            self._requests.keep(_key(encoding, data), (asked.request, text))


def _key(encoding: str, data: Bytes) -> bytes:
    made = hashlib.sha256(encoding.encode())
    made.update(b"\0")
    made.update(data)
    return made.digest()
