"""Exports: a plan in the words of PyTorch, JAX, MindSpore and launchers. Made when asked for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from meshwright.exports import EveryTarget, exported
from meshwright.schema import Graph, Plan, Setup
from meshwright.schema.canonical import canonical_json
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.store import documents

router = APIRouter(prefix="/v1/plans/{plan}", tags=["exports"])
# a newer version of the service may have more words
HEADERS = {"Cache-Control": "private, no-cache"}


@router.get("/exports/{target}", summary="A plan for another system")
def get_export(
    service: Service,
    by: Reader,
    plan: str,
    target: EveryTarget,
    partial: Annotated[
        bool, Query(description="Export what fits, though it does not describe the whole plan")
    ] = False,
) -> Response:
    """Layouts and strategies as `meshwright export` writes them, or a launcher's options.

    409 where the export does not describe the plan, or the target refuses it, unless `partial` is
    true. Then the answer lists the differences: `lost` of launchers, `refused` of all others.
    """
    with service.database.reading() as connection:
        found = documents.parsed(connection, by.tenant, Plan, plan)
        graph = documents.parsed(connection, by.tenant, Graph, found.graph)
        setup = documents.parsed(connection, by.tenant, Setup, found.setup)
    written = exported(found, target, graph=graph, setup=setup)
    if not partial:
        written.require_whole("Use ?partial=true to export what fits.")
    text = canonical_json(written.document)
    return Response(text, media_type=etags.MEDIA_TYPE, headers=HEADERS)
