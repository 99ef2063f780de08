"""Redistributions: the collectives of one plan, and transfers from one plan to another."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel
from sqlalchemy import Connection

from meshwright.schema import Document, Graph, InvalidInput, Plan, Redistribution, Setup, Topology
from meshwright.schema.canonical import canonical_json
from meshwright.schema.transfer import DeviceTransfer, MovedStates, Transfer
from meshwright.transfers.pieces import device_transfer
from meshwright_costmodel.presets import preset
from meshwright_service.api import etags
from meshwright_service.api.state import Service, State
from meshwright_service.auth.principals import Reader
from meshwright_service.common.errors import ParameterError
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_solver.layouts.transfers.plans import PlanDocuments, transfer_plans

router = APIRouter(prefix="/v1", tags=["redistributions"])


class StageRedistribution(Redistribution):
    """A redistribution with the number of its stage."""

    stage: int


class PlanRedistributions(BaseModel):
    """The collectives of a plan, in plan order."""

    plan: str
    redistributions: tuple[StageRedistribution, ...]


OF_PLAN: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanRedistributions},
    304: etags.NOT_MODIFIED,
}
BETWEEN: dict[int | str, dict[str, Any]] = {
    200: {"model": Transfer | DeviceTransfer},
    304: etags.NOT_MODIFIED,
}
PlanId = Annotated[str, Query(max_length=100, description="Id of a stored plan")]


@router.get(
    "/plans/{plan}/redistributions", responses=OF_PLAN, summary="List the redistributions of a plan"
)
def of_plan(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """The steps of every redistribution from one layout to the next, with bytes and times."""
    tag = f"{plan}.redistributions"
    with service.database.reading() as connection:
        if etags.holds(request, tag) and documents.exists(connection, by.tenant, "plan", plan):
            return etags.not_modified(tag)
        plan_document = Plan.from_json(documents.read(connection, by.tenant, "plan", plan))
    lines = [
        {"stage": stage, **move.model_dump(mode="json", exclude_defaults=True)}
        for stage, part in enumerate(plan_document.stages)
        for move in part.redistributions
    ]
    body = canonical_json({"plan": plan, "redistributions": lines}).encode()
    return etags.document(tag, body)


@router.get("/redistributions", responses=BETWEEN, summary="Plan the transfer to another plan")
def between(
    request: Request,
    service: Service,
    by: Reader,
    from_plan: PlanId,
    to_plan: PlanId,
    state: MovedStates = "all",
    first: Annotated[int, Query(ge=0, le=2**20, description="Device of to_plan's rank 0")] = 0,
    cluster: Annotated[
        str | None,
        Query(max_length=200, description="Id or preset of the topology that contains both"),
    ] = None,
    device: Annotated[int | None, Query(ge=0, description="Only the part of this device")] = None,
) -> Response:
    """The minimal sends and receives that move the state from one plan to another."""
    with service.database.reading() as connection:
        source, target = (_documents(connection, by.tenant, plan) for plan in (from_plan, to_plan))
    transfer: Document = transfer_plans(
        source, target, state=state, first=first, cluster=_cluster(service, by.tenant, cluster)
    )
    if device is not None:
        assert isinstance(transfer, Transfer)
        transfer = device_transfer(transfer, device)
    return etags.recent(request, transfer)


def _documents(connection: Connection, tenant: Tenant, id_: str) -> PlanDocuments:
    plan = documents.parsed(connection, tenant, Plan, id_)
    return PlanDocuments(
        plan,
        documents.parsed(connection, tenant, Graph, plan.graph),
        documents.parsed(connection, tenant, Topology, plan.topology),
        documents.parsed(connection, tenant, Setup, plan.setup),
    )


def _cluster(service: State, tenant: Tenant, name: str | None) -> Topology | None:
    if name is None:
        return None
    if name.startswith("topo_"):
        with service.database.reading() as connection:
            return documents.parsed(connection, tenant, Topology, name)
    try:
        return preset(name)
    except InvalidInput as wrong:
        raise ParameterError(f"cluster: {wrong.detail}") from None
