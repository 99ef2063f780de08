"""Measurements: queue a measurement for agents, and end an attempt."""

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
QUEUED: dict[int | str, dict[str, Any]] = {
    202: {"model": JobResource, "description": "The job; Location names it"}
}


@router.post(
    "/v1/calibrations:measure", responses=QUEUED, status_code=202, summary="Queue a measurement",
    response_model=JobResource, response_model_exclude_none=True,
)  # fmt: skip
def post_measure(
    service: Service,
    by: Planner,
    response: Response,
    body: JsonBody,
    idempotency_key: Given = None,
) -> JobResource:
    """Queue a measurement for the agents. 409 if no live agent can take it."""
    measure = Measure.from_dict(body.json())
    if measure.agent is not None:
        service.agents.get(by.tenant, measure.agent)
    once = Once.of(idempotency_key, "measure", body.encoding, body=body.data)
    with service.database.writing() as connection:
        repeated_job = once and service.idempotency.alone(connection, by.tenant, once)
        if not repeated_job and not service.agents.has_one(
            connection, by.tenant, agent=measure.agent, backend=measure.backend
        ):
            raise NoAgent(_no_agent(measure, service))
        job = repeated_job or service.jobs.measure(connection, by, measure)
        if once and not repeated_job:
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
    """End an attempt with its results; idempotent for the same samples. 409 without the lease."""
    registered = service.agents.hear(by, agent)
    results = Results.from_dict(body.json())
    claim = claim_of(service, by, agent, measurement, results.attempt)
    ours = True
    if results.samples is not None:
        measured = _store(service, claim, registered, results.samples)
        return ResultsAnswer(job=measurement, stored=measured)
    if results.problem is not None:
        ours = service.leases.fail(claim, InvalidInput(results.problem))
    elif results.lost is not None:
        ours = service.leases.lost(claim, trace=results.lost)
    else:
        ours = service.leases.release(claim)
    if not ours:
        cancellation.let_go(service.database, claim)
        raise _lease_lost(claim)
    return ResultsAnswer(job=measurement)


def claim_of(service: State, by: Principal, agent: str, measurement: str, attempt: int) -> Claim:
    """The claim of an attempt.

    Raises NotFound for an unknown measurement, LeaseLost for the measurement of another agent.
    """
    row = service.jobs.get(by.tenant, measurement)
    if row.kind != "measurement":
        raise NotFound(f"no measurement has the id {measurement[:100]!r}")
    claim = Claim(by.tenant, measurement, attempt, row.asked)
    if row.worker != agent:
        raise _lease_lost(claim)
    return claim


def _store(service: State, claim: Claim, agent: Agent, samples: Samples) -> Measured:
    row = service.jobs.get(claim.tenant, claim.job)
    if (row.state, row.attempt, row.samples) == ("succeeded", claim.attempt, samples.id):
        with service.database.reading() as connection:
            return _answer(
                samples, documents.parsed(connection, claim.tenant, Calibration, row.calibration)
            )
    if not service.leases.renew(claim):  # the fit below takes time
        cancellation.let_go(service.database, claim)
        raise _lease_lost(claim)
    backend, devices = samples.backend, samples.topology.device_count
    if (backend, devices) != (agent.backend, agent.devices):
        raise InvalidInput(
            f"the samples are of {devices} devices over {backend}, the agent registered "
            f"{agent.devices} over {agent.backend}"
        )
    calibration = fit_calibration(samples)
    if not service.leases.measured(claim, samples, calibration):
        raise _lease_lost(claim)
    return _answer(samples, calibration)


def _answer(samples: Samples, calibration: Calibration) -> Measured:
    assert calibration.fitted is not None
    return Measured(
        id=samples.id,
        topology=samples.topology.id,
        calibration=calibration.id,
        median_error=calibration.fitted.median_error,
    )


def _lease_lost(claim: Claim) -> LeaseLost:
    return LeaseLost(
        f"attempt {claim.attempt} at the measurement {claim.job} is over: its lease expired, or it "
        "was cancelled"
    )


def _no_agent(measure: Measure, service: State) -> str:
    which = f" {measure.agent}" if measure.agent else ""
    over = f" over {measure.backend}" if measure.backend else ""
    return (
        f"no agent{which}{over} was heard of in the last {service.settings.agent_silent_s:g} s. "
        "Start one: meshwright agent --serve --server URL"
    )
