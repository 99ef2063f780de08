"""Exports of a plan to PyTorch, JAX, MindSpore and launchers, computed on request."""

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
# a newer version of the service may export more
HEADERS = {"Cache-Control": "private, no-cache"}


@router.get("/exports/{target}", summary="Export a plan")
def get_export(
    service: Service,
    by: Reader,
    plan: str,
    target: EveryTarget,
    partial: Annotated[
        bool, Query(description="Export a part of the plan if the target cannot describe all of it")
    ] = False,
) -> Response:
    """Layouts and strategies as in `meshwright export`, or the options of a launcher.

    409 if the export does not describe the plan or the target refuses it, unless `partial` is true.
    The answer then lists the differences: `lost` for launchers, `refused` for other targets.
    """
    with service.database.reading() as connection:
        plan_document = documents.parsed(connection, by.tenant, Plan, plan)
        graph = documents.parsed(connection, by.tenant, Graph, plan_document.graph)
        setup = documents.parsed(connection, by.tenant, Setup, plan_document.setup)
    written = exported(plan_document, target, graph=graph, setup=setup)
    if not partial:
        written.require_whole("Use ?partial=true to export what fits.")
    text = canonical_json(written.document)
    return Response(text, media_type=etags.MEDIA_TYPE, headers=HEADERS)
