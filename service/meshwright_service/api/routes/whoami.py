"""Who asks: what the caller's own key may do, so that a client offers nothing that is refused."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from meshwright_service.auth.principals import SCOPES, Reader, Scope

router = APIRouter(prefix="/v1/caller", tags=["keys"])


class Caller(BaseModel):
    """The caller. key: the id of its key, if it has one. scopes: all that it may use, those too
    that another holds."""

    key: str | None = None
    scopes: tuple[Scope, ...]


@router.get("", response_model_exclude_none=True, summary="Read what the caller may do")
def get_caller(by: Reader) -> Caller:
    """The key that the request came with, and its scopes; all of them in a store without keys."""
    return Caller(key=by.key, scopes=tuple(scope for scope in SCOPES if by.may(scope)))
