"""The caller: the scopes of its key, so that a client offers only permitted actions."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from meshwright_service.auth.principals import SCOPES, Reader, Scope

router = APIRouter(prefix="/v1/caller", tags=["keys"])


class Caller(BaseModel):
    """The caller. key: the id of its key, or None. scopes: all permitted scopes, including those
    that another scope includes."""

    key: str | None = None
    scopes: tuple[Scope, ...]


@router.get("", response_model_exclude_none=True, summary="Read the scopes of the caller")
def get_caller(by: Reader) -> Caller:
    """The key of the request and its scopes; all scopes in a store without keys."""
    return Caller(key=by.key, scopes=tuple(scope for scope in SCOPES if by.may(scope)))
