"""Observations: what training jobs measured of a plan."""

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
    200: {"model": Observed, "description": "It was stored already"},
    201: {"model": Observed, "description": "It is stored"},
}


@router.post(
    "/{plan}/observations", responses=UPLOAD, summary="Report a measured step",
    response_model=Observed,
)  # fmt: skip
def post_observation(service: Service, by: Planner, plan: str, body: JsonBody) -> Response:
    """Store what a training job measured; the answer names a calibration corrected by it."""
    given = body.json()
    if given.get("plan", plan) != plan:
        raise RequestError(
            f"the observation is of the plan {str(given['plan'])[:100]!r}, the path names {plan!r}",
            pointer="/plan",
        )
    observation = Observation.from_dict({**given, "plan": plan})
    # a large plan takes seconds to read: before anybody else is kept from writing
    with service.database.reading() as connection:
        observed = documents.parsed(connection, by.tenant, Plan, plan)
    with service.database.writing() as connection:
        # each counts all that came before it
        service.database.alone(connection, f"anchors of {by.tenant} {observed.calibration}")
        created, ratio, calibration = observations.put(
            connection, by.tenant, observation, observed, now=service.database.now
        )
    assert calibration.anchored is not None
    made = Observed(
        id=observation.id,
        ratio=ratio,
        calibration=calibration.id,
        anchor=calibration.anchored.ratio,
        observations=calibration.anchored.observations,
    )
    return told(made, created=created)


@router.get(
    "/{plan}/observations", response_model_exclude_none=True, summary="Predicted against measured"
)
def list_observations(service: Service, by: Reader, plan: str, page: Paging) -> ObservationList:
    """What was measured of a plan, the newest first."""
    with service.database.reading() as connection:
        found = observations.list_of_plan(connection, by.tenant, plan, page)
    return ObservationList(observations=found.items, next_page_token=found.next_token)
