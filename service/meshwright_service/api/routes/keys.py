"""API keys of the caller's tenant; `meshwright-server keys` manages those of all tenants."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from meshwright.schema import Document
from meshwright.schema.model import Line, Number
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import time_if
from meshwright_service.api.state import Service
from meshwright_service.auth.api_keys import Key
from meshwright_service.auth.principals import SCOPES, Admin, Scope, TenantScope
from meshwright_service.common.clock import time_of
from meshwright_service.store.pagination import Paging

router = APIRouter(prefix="/v1/keys", tags=["keys"])
YEAR_S = 365 * 86400.0


class KeyRequest(Document):
    """A request for a key. expires_s: its lifetime in seconds; unlimited by default."""

    prefix: ClassVar[str] = "keyrequest"

    name: Annotated[Line, Field(min_length=1)]
    scopes: tuple[TenantScope, ...] = Field(min_length=1)
    expires_s: Number | None = Field(default=None, gt=0, le=100 * YEAR_S)


class KeyEntry(BaseModel):
    """A key without its secret. prefix: of the secret. used_at: approximate time of last use."""

    id: str
    name: str
    prefix: str
    scopes: tuple[Scope, ...]
    created_at: str
    expires_at: str | None = None
    used_at: str | None = None
    revoked_at: str | None = None


class NewKey(KeyEntry):
    """A key with its secret, which is shown only once."""

    key: str


class KeyList(BaseModel):
    """A page of keys."""

    keys: tuple[KeyEntry, ...]
    next_page_token: str | None = None


MADE: dict[int | str, dict[str, Any]] = {201: {"description": "The key, with its secret"}}


@router.post(
    "", status_code=201, responses=MADE, summary="Create a key", response_model_exclude_none=True
)
def post_key(service: Service, by: Admin, response: Response, body: JsonBody) -> NewKey:
    """Create a key for the caller's tenant. Only this answer shows its secret."""
    key_request = KeyRequest.from_dict(body.json())
    key, secret = service.keys.create(
        by.tenant, name=key_request.name, scopes=key_request.scopes, expires_s=key_request.expires_s
    )
    service.authentication.forget()
    response.headers["Cache-Control"] = "no-store"
    return NewKey(**key_entry_of(key).model_dump(), key=secret)


@router.get("", response_model_exclude_none=True, summary="List keys")
def list_keys(service: Service, by: Admin, page: Paging) -> KeyList:
    """The keys of the tenant, newest first, including revoked keys."""
    listed = service.keys.list(by.tenant, page)
    return KeyList(keys=tuple(map(key_entry_of, listed.items)), next_page_token=listed.next_token)


@router.delete("/{key}", response_model_exclude_none=True, summary="Revoke a key")
def delete_key(service: Service, by: Admin, key: str) -> KeyEntry:
    """Revoke a key permanently; idempotent."""
    revoked = service.keys.revoke(by.tenant, key)
    service.authentication.forget()
    return key_entry_of(revoked)


def key_entry_of(key: Key) -> KeyEntry:
    """The API's representation of a key."""
    return KeyEntry(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=tuple(scope for scope in SCOPES if scope in key.scopes),
        created_at=time_of(key.created),
        expires_at=time_if(key.expires),
        used_at=time_if(key.used),
        revoked_at=time_if(key.revoked),
    )
