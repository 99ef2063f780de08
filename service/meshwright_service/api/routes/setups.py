"""Setups: the training options of plans."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from meshwright.schema import Setup
from meshwright_service.api.routes.documents import read_document
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/setups", tags=["setups"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Setup}}


@router.get("/{setup}", responses=ONE, summary="Read a setup")
def get_setup(request: Request, service: Service, by: Reader, setup: str) -> Response:
    """A setup in canonical form; a plan names its id."""
    return read_document(request, service, by.tenant, "setup", setup)
