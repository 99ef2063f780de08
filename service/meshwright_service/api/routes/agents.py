"""Agents: registration, heartbeats and leases of measurements."""

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
LOOK_S = 0.2  # interval of looking for a measurement; chosen
SIGNS = 5  # heartbeats within the duration of a lease; chosen
UPLOAD: dict[int | str, dict[str, Any]] = {
    200: {"model": Registered, "description": "The agent was registered before"},
    201: {"model": Registered, "description": "The agent is registered; Location names it"},
}


@router.post("", responses=UPLOAD, summary="Register an agent", response_model=Registered)
def post_agent(service: Service, by: Measurer, body: JsonBody) -> Response:
    """Register an agent, which is then alive. The id of an equal agent is the same."""
    agent = Agent.from_dict(body.json())
    created = service.agents.register(by, agent)
    due_s = min(service.leases.lease_s, service.agents.silent_s) / SIGNS
    answer = Registered(id=agent.id, heartbeat_s=due_s)
    return told(answer, created=created, location=f"/v1/agents/{agent.id}")


@router.get("", response_model_exclude_none=True, summary="List agents")
def list_agents(service: Service, by: Reader, page: Paging) -> AgentList:
    """Agents, newest first, alive or silent."""
    entries = service.agents.list(by.tenant, page)
    return AgentList(agents=tuple(map(agent_of, entries.items)), next_page_token=entries.next_token)


@router.get("/{agent}", response_model_exclude_none=True, summary="Read an agent")
def get_agent(service: Service, by: Reader, agent: str) -> AgentEntry:
    """One agent, with the topology that it detected."""
    return agent_of(service.agents.get(by.tenant, agent))


@router.post("/{agent}/heartbeat", summary="Send a heartbeat")
def post_heartbeat(service: Service, by: Measurer, agent: str, body: JsonBody) -> HeartbeatAnswer:
    """Record that the agent is alive, renew the lease of its measurement and store its progress."""
    heartbeat = Heartbeat.from_dict(body.json())
    service.agents.hear(by, agent)
    if heartbeat.measurement is None or heartbeat.attempt is None:
        return HeartbeatAnswer(holds=False)
    claim = claim_of(service, by, agent, heartbeat.measurement, heartbeat.attempt)
    holds = service.leases.renew(claim)
    if not holds:
        cancellation.let_go(service.database, claim)
    elif heartbeat.progress is not None:
        service.leases.progress(claim, heartbeat.progress)
    return HeartbeatAnswer(holds=holds)


@router.post("/{agent}/lease", response_model_exclude_none=True, summary="Lease a measurement")
async def post_lease(
    request: Request,
    service: Service,
    by: Measurer,
    agent: str,
    wait: Annotated[
        float, Query(ge=0, le=3600, description="Seconds to wait for a measurement")
    ] = 0,
) -> LeaseAnswer:
    """Lease the oldest measurement that the agent may take; empty after the wait.

    The request takes over expired leases. A waiting agent counts as alive.
    """
    registered = await run_in_threadpool(service.agents.hear, by, agent)
    if wait <= 0:
        claim = await run_in_threadpool(_claim, service, by, agent, registered.backend)
        return _lease_answer(service, claim)
    with service.waits.one(by.tenant):
        return await _wait(request, service, by, agent, registered.backend, wait)


async def _wait(
    request: Request, service: State, by: Principal, agent: str, backend: str, wait: float
) -> LeaseAnswer:
    deadline = time.monotonic() + min(
        wait, service.settings.max_wait_s, service.agents.silent_s / 2
    )
    while True:
        claim = await run_in_threadpool(_claim, service, by, agent, backend)
        left_s = deadline - time.monotonic()
        if claim is None and left_s > 0 and not service.stopping.is_set():
            if await request.is_disconnected():
                return LeaseAnswer()
            await asyncio.sleep(min(LOOK_S, left_s))
            continue
        return _lease_answer(service, claim)


def _claim(service: State, by: Principal, agent: str, backend: str) -> Claim | None:
    mine = agents.takes(by.tenant, agent, backend)
    return service.leases.claim(agent, mine) if service.leases.has_work(mine) else None


def _lease_answer(service: State, claim: Claim | None) -> LeaseAnswer:
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
