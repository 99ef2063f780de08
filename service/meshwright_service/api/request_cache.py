"""LRU cache of parsed requests, by the bytes of their bodies.

The ranks of a training job and a restarted controller send equal bodies, which need not be parsed
and validated again.
"""

from __future__ import annotations

import hashlib
import json

from meshwright.schema.canonical import canonical_json
from meshwright_service.api.plan_request import PlanOrder
from meshwright_service.common.content_encodings import Bytes
from meshwright_service.common.lru_cache import Latest

MOST = 4096  # requests
LONGEST = 2048  # characters of one request in JSON; chosen: 8 MiB in all


class RequestCache:
    """The parsed requests of bodies. Safe to share between threads."""

    def __init__(self) -> None:
        self._requests: Latest[bytes, tuple[str, str]] = Latest(MOST)

    def order(self, encoding: str, data: Bytes) -> PlanOrder | None:
        """The cached request of a body, without its documents; else None."""
        entry = self._requests.get(_key(encoding, data))
        if entry is None:
            return None
        request, text = entry
        return PlanOrder(request, json.loads(text), ())

    def keep(self, encoding: str, data: Bytes, order: PlanOrder) -> None:
        """Cache the request of a body; it must not ask for a certificate."""
        text = canonical_json(order.body)
        if len(text) <= LONGEST:
            self._requests.keep(_key(encoding, data), (order.request, text))


def _key(encoding: str, data: Bytes) -> bytes:
    digest = hashlib.sha256(encoding.encode())
    digest.update(b"\0")
    digest.update(data)
    return digest.digest()
