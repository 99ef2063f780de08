"""Observations: step times of a plan that training jobs report."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from meshwright.schema import Plan, RequestError
from meshwright.schema.observation import Observation
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import ObservationList, Observed
from meshwright_service.api.routes.documents import told
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Planner, Reader
from meshwright_service.store import documents, observations
from meshwright_service.store.pagination import Paging

router = APIRouter(prefix="/v1/plans", tags=["observations"])
UPLOAD: dict[int | str, dict[str, Any]] = {
    200: {"model": Observed, "description": "The observation was stored before"},
    201: {"model": Observed, "description": "The observation is stored"},
}


@router.post(
    "/{plan}/observations", responses=UPLOAD, summary="Report a measured step",
    response_model=Observed,
)  # fmt: skip
def post_observation(service: Service, by: Planner, plan: str, body: JsonBody) -> Response:
    """Store a measured step time; the answer names a calibration corrected by it."""
    body_fields = body.json()
    if body_fields.get("plan", plan) != plan:
        raise RequestError(
            f"the observation is of the plan {str(body_fields['plan'])[:100]!r}, "
            f"the path names {plan!r}",
            pointer="/plan",
        )
    observation = Observation.from_dict({**body_fields, "plan": plan})
    # outside the writing transaction: parsing a large plan takes seconds
    with service.database.reading() as connection:
        observed = documents.parsed(connection, by.tenant, Plan, plan)
    with service.database.writing() as connection:
        # serialize: each observation includes all earlier ones
        service.database.alone(connection, f"anchors of {by.tenant} {observed.calibration}")
        created, ratio, calibration = observations.put(
            connection, by.tenant, observation, observed, now=service.database.now
        )
    assert calibration.anchored is not None
    answer = Observed(
        id=observation.id,
        ratio=ratio,
        calibration=calibration.id,
        anchor=calibration.anchored.ratio,
        observations=calibration.anchored.observations,
    )
    return told(answer, created=created)


@router.get(
    "/{plan}/observations",
    response_model_exclude_none=True,
    summary="List the observations of a plan",
)
def list_observations(service: Service, by: Reader, plan: str, page: Paging) -> ObservationList:
    """The observations of a plan, newest first."""
    with service.database.reading() as connection:
        listed = observations.list_of_plan(connection, by.tenant, plan, page)
    return ObservationList(observations=listed.items, next_page_token=listed.next_token)
