"""Exports of a plan to PyTorch, JAX, MindSpore and launchers, computed on request."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.exports import (
    EveryTarget,
    Exported,
    LaunchFile,
    LaunchGuide,
    exported,
    launch_file,
    launch_guide,
)
from meshwright.schema import Setup, Topology
from meshwright.schema.canonical import canonical_json
from meshwright.schema.overview import Overview
from meshwright_service.api import etags
from meshwright_service.api.state import Service, State
from meshwright_service.auth.principals import Reader
from meshwright_service.common.tenant import Tenant
from meshwright_service.plan_views.views import OVERVIEW
from meshwright_service.store import documents

router = APIRouter(prefix="/v1/plans/{plan}", tags=["exports"])
# a newer version of the service may export more
HEADERS = {"Cache-Control": "private, no-cache"}
Partial = Annotated[
    bool, Query(description="Export a part of the plan if the target cannot describe all of it")
]
GUIDE: dict[int | str, dict[str, Any]] = {200: {"model": LaunchGuide}, 304: etags.NOT_MODIFIED}
FILE: dict[int | str, dict[str, Any]] = {200: {"model": LaunchFile}, 304: etags.NOT_MODIFIED}


@router.get("/exports/{target}", summary="Export a plan")
def get_export(
    service: Service,
    by: Reader,
    plan: str,
    target: EveryTarget,
    partial: Partial = False,
) -> Response:
    """Layouts and strategies as in `meshwright export`, or the options of a launcher.

    409 if the export does not describe the plan or the target refuses it, unless `partial` is true.
    The answer then lists the differences: `lost` for launchers, `refused` for other targets.
    """
    written = _exported(service, by.tenant, plan, target)
    if not partial:
        written.require_whole("Use ?partial=true to export what fits.")
    text = canonical_json(written.document)
    return Response(text, media_type=etags.MEDIA_TYPE, headers=HEADERS)


@router.get("/launch", responses=GUIDE, summary="Read the launch guide of a plan")
def get_launch_guide(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The ways to train with a plan or to read it elsewhere, each with its steps. `{server}` in a
    step is the URL of this service."""
    overview = Overview.model_validate_json(service.views.part(by.tenant, plan, OVERVIEW))
    with service.database.reading() as connection:
        topology = documents.parsed(connection, by.tenant, Topology, overview.topology)
    return _recent(request, launch_guide(overview, topology))


@router.get("/launch/{target}", responses=FILE, summary="Read the file of an export")
def get_launch_file(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    target: EveryTarget,
    partial: Partial = False,
) -> Response:
    """The file of an export, with the parts of the plan that it does not state, grouped. If there
    are any, the text is left out unless `partial` is true."""
    written = _exported(service, by.tenant, plan, target)
    name = service.inspected.of(by.tenant, plan).graph.name
    return _recent(request, launch_file(written, name, text=partial))


def _exported(service: State, tenant: Tenant, plan: str, target: EveryTarget) -> Exported:
    inspected = service.inspected.of(tenant, plan)
    with service.database.reading() as connection:
        setup = documents.parsed(connection, tenant, Setup, inspected.plan.setup)
    return exported(inspected.plan, target, graph=inspected.graph, setup=setup)


def _recent(request: Request, answer: LaunchGuide | LaunchFile) -> Response:
    return etags.recent_text(request, answer.model_dump_json(exclude_none=True))
