"""Idempotency keys (draft-ietf-httpapi-idempotency-key-header-07).

The transaction that queues a job also stores the key of its request. A concurrent request with the
same key, at any process, waits for that transaction and gets the same job. There is no "in
progress" state that a killed process could leave behind.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from fastapi import Header
from sqlalchemy import Connection, and_, delete, insert, select

from meshwright_service.common.content_encodings import Bytes
from meshwright_service.common.errors import KeyReused, ParameterError
from meshwright_service.common.tenant import Tenant
from meshwright_service.store.database import Database
from meshwright_service.store.tables import IdempotencyRow

MAX_KEY = 255  # characters; chosen: an UUID has 36

Given = Annotated[
    str | None,
    Header(
        description="Sent again with the same request, however often: one job, always the same. "
        "1 to 255 printable ASCII characters"
    ),
]


@dataclass(frozen=True, slots=True)
class Once:
    """An idempotency key and the digest of its request."""

    key: str
    digest: str

    @classmethod
    def of(cls, key: str | None, *scope: object, body: Bytes) -> Once | None:
        """The key with the digest of a request; None without a key.

        scope: the values beside the body that decide the answer.
        """
        if key is None:
            return None
        if not (1 <= len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
            raise ParameterError(
                f"Idempotency-Key has 1 to {MAX_KEY} printable ASCII characters, got {key[:40]!a}"
            )
        digest = hashlib.sha256(repr(scope).encode() + b"\n")
        digest.update(body)
        return cls(key, digest.hexdigest())


class Idempotency:
    """The idempotency keys of one database, each valid for `kept_s`. Safe to share."""

    def __init__(self, database: Database, *, kept_s: float) -> None:
        self._database = database
        self._kept_s = kept_s

    def find(self, connection: Connection, tenant: Tenant, once: Once) -> str | None:
        """The job of the request; None for a new key.

        Raises KeyReused if another request used the key.
        """
        mine = and_(IdempotencyRow.tenant == tenant, IdempotencyRow.key == once.key)
        live = IdempotencyRow.created > self._database.now - self._kept_s
        jobs = select(IdempotencyRow.digest, IdempotencyRow.job).where(mine, live)
        row = connection.execute(jobs).first()
        if row is None:
            return None
        if row.digest != once.digest:
            raise KeyReused(
                f"another request used the Idempotency-Key {once.key[:80]!r}. Send a new key "
                "with a new request"
            )
        return str(row.job)

    def alone(self, connection: Connection, tenant: Tenant, once: Once) -> str | None:
        """The job of the request, as `find`, under a lock of the key until the transaction ends."""
        self._database.alone(connection, f"idempotency {tenant} {once.key}")
        return self.find(connection, tenant, once)

    def keep(self, connection: Connection, tenant: Tenant, once: Once, job: str) -> None:
        """Store the job of a new request, and delete the expired keys of the tenant."""
        old = IdempotencyRow.created <= self._database.now - self._kept_s
        connection.execute(delete(IdempotencyRow).where(IdempotencyRow.tenant == tenant, old))
        connection.execute(
            insert(IdempotencyRow).values(
                tenant=tenant,
                key=once.key,
                digest=once.digest,
                job=job,
                created=self._database.now,
            )
        )
