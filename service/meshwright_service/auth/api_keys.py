"""API keys: looked up by a prefix of their secret; revoked but never deleted.

A secret is `mw_` and 32 random bytes in base64. The store holds its SHA-256 digest: a random secret
needs no slow hash, because it cannot be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, insert, or_, select, update
from sqlalchemy.exc import OperationalError

from meshwright.schema import NotFound, Unauthorized
from meshwright_service.auth.principals import Principal, Scope, scopes_of
from meshwright_service.common.tenant import Tenant
from meshwright_service.store.database import Database
from meshwright_service.store.pagination import Page, PageRequest, read_page
from meshwright_service.store.tables import KeyRow

log = logging.getLogger(__name__)
MARK = "mw_"
RANDOM_BYTES = 32
PREFIX = len(MARK) + 8  # characters of the stored prefix; chosen: 48 of the 256 random bits
USED_S = 60.0  # maximum age of `used`; chosen: one write a minute for each key


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret. Times in seconds since 1970."""

    id: str
    tenant: Tenant
    name: str
    prefix: str
    scopes: frozenset[Scope]
    created: float
    expires: float | None
    used: float | None
    revoked: float | None


class Keys:
    """The keys of one database. Safe to share between threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self, tenant: Tenant, *, name: str, scopes: Iterable[Scope], expires_s: float | None = None
    ) -> tuple[Key, str]:
        """A new key and its secret, which is not stored."""
        secret = MARK + secrets.token_urlsafe(RANDOM_BYTES)
        id_ = f"key_{uuid.uuid4().hex}"
        now = self._database.now
        with self._database.writing() as connection:
            connection.execute(
                insert(KeyRow).values(
                    id=id_,
                    tenant=tenant,
                    name=name,
                    prefix=secret[:PREFIX],
                    digest=_digest(secret),
                    scopes=sorted(set(scopes)),
                    created=now,
                    expires=None if expires_s is None else now + expires_s,
                )
            )
            return self._get(connection, tenant, id_), secret

    def list(self, tenant: Tenant, page: PageRequest) -> Page[Key]:
        """The keys of a tenant, newest first, including revoked keys."""
        statement = select(KeyRow.__table__).where(KeyRow.tenant == tenant)
        with self._database.reading() as connection:
            rows, token = read_page(connection, statement, KeyRow.created, KeyRow.id, page)
        return Page(tuple(map(_key, rows)), token)

    def every(self) -> tuple[Key, ...]:
        """The keys of all tenants, oldest first, for the operator."""
        statement = select(KeyRow.__table__).order_by(KeyRow.created, KeyRow.id)
        with self._database.reading() as connection:
            return tuple(map(_key, connection.execute(statement)))

    def revoke(self, tenant: Tenant, key: str) -> Key:
        """Revoke a key permanently; idempotent. Raises NotFound for a key of another tenant."""
        live = and_(KeyRow.id == key, KeyRow.tenant == tenant, KeyRow.revoked.is_(None))
        with self._database.writing() as connection:
            connection.execute(update(KeyRow).where(live).values(revoked=self._database.now))
            return self._get(connection, tenant, key)

    def any(self) -> bool:
        """Whether the store ever had a key; from then on requests need one."""
        with self._database.reading() as connection:
            return connection.execute(select(KeyRow.id).limit(1)).first() is not None

    def principal(self, secret: str) -> Principal:
        """The principal of a secret; raises Unauthorized if it is unknown, revoked or expired."""
        is_over = (KeyRow.expires <= self._database.now).label("is_over")
        stale = or_(KeyRow.used.is_(None), KeyRow.used < self._database.now - USED_S)
        candidates = select(KeyRow.__table__, is_over, stale.label("is_stale"))
        digest = _digest(secret)
        with self._database.reading() as connection:
            rows = connection.execute(candidates.where(KeyRow.prefix == secret[:PREFIX])).all()
        for row in rows:
            if hmac.compare_digest(row.digest, digest):
                return self._checked(row)
        raise Unauthorized("the service has no such key. Ask an admin of your tenant for a key")

    def _checked(self, row: Row[Any]) -> Principal:
        if row.revoked is not None:
            raise Unauthorized(f"the key {row.id} ({row.prefix}…) was revoked")
        if row.is_over:
            raise Unauthorized(f"the key {row.id} ({row.prefix}…) has expired")
        if row.is_stale:
            self._note_use(row.id)
        return Principal(Tenant(row.tenant), row.id, scopes_of(row.scopes))

    def _note_use(self, key: str) -> None:
        try:
            with self._database.writing() as connection:
                mine = update(KeyRow).where(KeyRow.id == key)
                connection.execute(mine.values(used=self._database.now))
        except OperationalError as failure:  # for example a full disk: reads continue
            log.warning("the last use of the key %s is not noted: %s", key, failure.orig)

    def _get(self, connection: Connection, tenant: Tenant, key: str) -> Key:
        mine = and_(KeyRow.id == key, KeyRow.tenant == tenant)
        row = connection.execute(select(KeyRow.__table__).where(mine)).first()
        if row is None:
            raise NotFound(f"no key has the id {key[:100]!r}")
        return _key(row)


def is_ended(now: ColumnElement[float]) -> ColumnElement[bool]:
    """SQL condition on a key: it is revoked or expired."""
    return or_(KeyRow.revoked.is_not(None), KeyRow.expires <= now)


def _key(row: Row[Any]) -> Key:
    return Key(
        row.id, Tenant(row.tenant), row.name, row.prefix, scopes_of(row.scopes), row.created,
        row.expires, row.used, row.revoked,
    )  # fmt: skip


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
