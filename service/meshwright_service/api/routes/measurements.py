"""Measurements: ask agents to measure; how an attempt at it ends."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from meshwright.schema import Calibration, InvalidInput, NotFound
from meshwright.schema.agent import Agent, Measure, Results
from meshwright.schema.samples import Samples
from meshwright_costmodel.fitting import fit_calibration
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import JobResource, Measured, ResultsAnswer, job_of
from meshwright_service.api.state import Service, State
from meshwright_service.auth.principals import Measurer, Planner, Principal
from meshwright_service.common.errors import LeaseLost, NoAgent
from meshwright_service.jobs import cancellation
from meshwright_service.jobs.idempotency import Given, Once
from meshwright_service.jobs.leases import Claim
from meshwright_service.store import documents

router = APIRouter(tags=["agents"])
ASKED: dict[int | str, dict[str, Any]] = {
    202: {"model": JobResource, "description": "The job; Location names it"}
}


@router.post(
    "/v1/calibrations:measure", responses=ASKED, status_code=202, summary="Ask for a measurement",
    response_model=JobResource, response_model_exclude_none=True,
)  # fmt: skip
def post_measure(
    service: Service,
    by: Planner,
    response: Response,
    body: JsonBody,
    idempotency_key: Given = None,
) -> JobResource:
    """Queue a measurement; an agent that waits takes it. 409 where none is alive that could."""
    asked = Measure.from_dict(body.json())
    if asked.agent is not None:
        service.agents.get(by.tenant, asked.agent)
    once = Once.of(idempotency_key, "measure", body.encoding, body=body.data)
    with service.database.writing() as connection:
        again = once and service.idempotency.alone(connection, by.tenant, once)
        if not again and not service.agents.has_one(
            connection, by.tenant, agent=asked.agent, backend=asked.backend
        ):
            raise NoAgent(_lack(asked, service))
        job = again or service.jobs.measure(connection, by, asked)
        if once and not again:
            service.idempotency.keep(connection, by.tenant, once, job)
    response.headers["Location"] = f"/v1/jobs/{job}"
    return job_of(service.jobs.get(by.tenant, job))


@router.post(
    "/v1/agents/{agent}/measurements/{measurement}/results", response_model_exclude_none=True,
    summary="End a measurement",
)  # fmt: skip
def post_results(
    service: Service,
    by: Measurer,
    agent: str,
    measurement: str,
    body: JsonBody,
) -> ResultsAnswer:
    """Say how an attempt ended; the same samples twice are one answer. 409 without the lease."""
    own = service.agents.hear(by, agent)
    given = Results.from_dict(body.json())
    claim = claim_of(service, by, agent, measurement, given.attempt)
    ours = True
    if given.samples is not None:
        made = _keep(service, claim, own, given.samples)
        return ResultsAnswer(job=measurement, stored=made)
    if given.problem is not None:
        ours = service.leases.fail(claim, InvalidInput(given.problem))
    elif given.lost is not None:
        ours = service.leases.lost(claim, trace=given.lost)
    else:
        ours = service.leases.release(claim)
    if not ours:
        cancellation.let_go(service.database, claim)
        raise _lost(claim)
    return ResultsAnswer(job=measurement)


def claim_of(service: State, by: Principal, agent: str, measurement: str, attempt: int) -> Claim:
    """The claim of an attempt; NotFound without such a measurement, LeaseLost of another agent."""
    row = service.jobs.get(by.tenant, measurement)
    if row.kind != "measurement":
        raise NotFound(f"no measurement has the id {measurement[:100]!r}")
    claim = Claim(by.tenant, measurement, attempt, row.asked)
    if row.worker != agent:
        raise _lost(claim)
    return claim


def _keep(service: State, claim: Claim, own: Agent, samples: Samples) -> Measured:
    row = service.jobs.get(claim.tenant, claim.job)
    if (row.state, row.attempt, row.samples) == ("succeeded", claim.attempt, samples.id):
        with service.database.reading() as connection:
            return _made(
                samples, documents.parsed(connection, claim.tenant, Calibration, row.calibration)
            )
    if not service.leases.renew(claim):  # a fit takes a while
        cancellation.let_go(service.database, claim)
        raise _lost(claim)
    found = (samples.backend, samples.topology.device_count)
    if found != (own.backend, own.devices):
        raise InvalidInput(
            f"the samples are of {found[1]} devices over {found[0]}, the agent registered "
            f"{own.devices} over {own.backend}"
        )
    calibration = fit_calibration(samples)
    if not service.leases.measured(claim, samples, calibration):
        raise _lost(claim)
    return _made(samples, calibration)


def _made(samples: Samples, calibration: Calibration) -> Measured:
    assert calibration.fitted is not None
    return Measured(
        id=samples.id,
        topology=samples.topology.id,
        calibration=calibration.id,
        median_error=calibration.fitted.median_error,
    )


def _lost(claim: Claim) -> LeaseLost:
    return LeaseLost(
        f"attempt {claim.attempt} at the measurement {claim.job} is over: its lease ran out, or it "
        "was cancelled"
    )


def _lack(asked: Measure, service: State) -> str:
    which = f" {asked.agent}" if asked.agent else ""
    over = f" over {asked.backend}" if asked.backend else ""
    return (
        f"no agent{which}{over} was heard of in the last {service.settings.agent_silent_s:g} s; "
        "begin one: meshwright agent --serve --server URL"
    )
