"""Agents: they register, give signs of life, and ask for measurements."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from meshwright.schema.agent import Agent, Heartbeat, Measure
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import (
    AgentEntry,
    AgentList,
    HeartbeatAnswer,
    LeaseAnswer,
    MeasurementLease,
    Registered,
    agent_of,
)
from meshwright_service.api.routes.documents import told
from meshwright_service.api.routes.measurements import claim_of
from meshwright_service.api.state import Service, State
from meshwright_service.auth.principals import Measurer, Principal, Reader
from meshwright_service.jobs import agents, cancellation
from meshwright_service.jobs.leases import Claim
from meshwright_service.store.pagination import Paging

router = APIRouter(prefix="/v1/agents", tags=["agents"])
LOOK_S = 0.2  # between two looks for a measurement; chosen
SIGNS = 5  # of life, before a lease runs out or an agent is silent; chosen
UPLOAD: dict[int | str, dict[str, Any]] = {
    200: {"model": Registered, "description": "It was registered already"},
    201: {"model": Registered, "description": "It is registered; Location names it"},
}


@router.post("", responses=UPLOAD, summary="Register an agent", response_model=Registered)
def post_agent(service: Service, by: Measurer, body: JsonBody) -> Response:
    """Keep an agent, alive from now on; the same one again has the same id."""
    agent = Agent.from_dict(body.json())
    created = service.agents.register(by, agent)
    due_s = min(service.leases.lease_s, service.agents.silent_s) / SIGNS
    made = Registered(id=agent.id, heartbeat_s=due_s)
    return told(made, created=created, location=f"/v1/agents/{agent.id}")


@router.get("", response_model_exclude_none=True, summary="List agents")
def list_agents(service: Service, by: Reader, page: Paging) -> AgentList:
    """Agents, the newest first, alive or silent."""
    found = service.agents.list(by.tenant, page)
    return AgentList(agents=tuple(map(agent_of, found.items)), next_page_token=found.next_token)


@router.get("/{agent}", response_model_exclude_none=True, summary="Read an agent")
def get_agent(service: Service, by: Reader, agent: str) -> AgentEntry:
    """One agent, with the topology that it found."""
    return agent_of(service.agents.get(by.tenant, agent))


@router.post("/{agent}/heartbeat", summary="Give a sign of life")
def post_heartbeat(service: Service, by: Measurer, agent: str, body: JsonBody) -> HeartbeatAnswer:
    """Note that the agent lives; prolong the lease of what it measures, and keep its progress."""
    given = Heartbeat.from_dict(body.json())
    service.agents.hear(by, agent)
    if given.measurement is None or given.attempt is None:
        return HeartbeatAnswer(holds=False)
    claim = claim_of(service, by, agent, given.measurement, given.attempt)
    holds = service.leases.renew(claim)
    if not holds:
        cancellation.let_go(service.database, claim)
    elif given.progress is not None:
        service.leases.progress(claim, given.progress)
    return HeartbeatAnswer(holds=holds)


@router.post("/{agent}/lease", response_model_exclude_none=True, summary="Ask for a measurement")
async def post_lease(
    request: Request,
    service: Service,
    by: Measurer,
    agent: str,
    wait: Annotated[float, Query(ge=0, le=3600, description="Seconds to wait for one")] = 0,
) -> LeaseAnswer:
    """The oldest measurement that the agent may take, leased to it; nothing once the time is over.

    A lease that ran out is taken over here. The wait is a sign of life.
    """
    own = await run_in_threadpool(service.agents.hear, by, agent)
    if wait <= 0:
        claim = await run_in_threadpool(_claim, service, by, agent, own.backend)
        return _leased(service, claim)
    with service.waits.one(by.tenant):
        return await _wait(request, service, by, agent, own.backend, wait)


async def _wait(
    request: Request, service: State, by: Principal, agent: str, backend: str, wait: float
) -> LeaseAnswer:
    deadline = time.monotonic() + min(
        wait, service.settings.max_wait_s, service.agents.silent_s / 2
    )
    while True:
        claim = await run_in_threadpool(_claim, service, by, agent, backend)
        left = deadline - time.monotonic()
        if claim is None and left > 0 and not service.stopping.is_set():
            if await request.is_disconnected():
                return LeaseAnswer()
            await asyncio.sleep(min(LOOK_S, left))
            continue
        return _leased(service, claim)


def _claim(service: State, by: Principal, agent: str, backend: str) -> Claim | None:
    mine = agents.takes(by.tenant, agent, backend)
    return service.leases.claim(agent, mine) if service.leases.has_work(mine) else None


def _leased(service: State, claim: Claim | None) -> LeaseAnswer:
    if claim is None:
        return LeaseAnswer()
    return LeaseAnswer(
        measurement=MeasurementLease(
            id=claim.job,
            attempt=claim.attempt,
            lease_s=service.leases.lease_s,
            asked=Measure.from_dict(claim.asked),
        )
    )
