"""The OpenAPI document: FastAPI's, with problem documents in place of its error schemas."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from meshwright.schema import Calibration, Graph, Topology
from meshwright.schema.agent import Agent, Heartbeat, Measure, Results
from meshwright.schema.observation import Observation
from meshwright.schema.samples import Samples
from meshwright_service.api import examples
from meshwright_service.api.cost_graph_request import CostGraphRequest
from meshwright_service.api.middleware.authentication import OPEN
from meshwright_service.api.problem_details import MEDIA_TYPE, PROBLEM_SCHEMA
from meshwright_service.api.routes.create_plan import PlanRequest
from meshwright_service.api.routes.keys import KeyRequest
from meshwright_service.api.routes.labels import LabelChange
from meshwright_service.api.routes.sweeps import SweepRequest
from meshwright_service.api.state import State

PROBLEM = {"$ref": "#/components/schemas/Problem"}
REF = "#/components/schemas/{model}"
BODIES: dict[str, type[BaseModel]] = {
    "/v1/plan": PlanRequest,
    "/v1/sweeps": SweepRequest,
    "/v1/cost-graphs:solve": CostGraphRequest,
    "/v1/graphs": Graph,
    "/v1/topologies": Topology,
    "/v1/calibrations": Calibration,
    "/v1/calibrations:measure": Measure,
    "/v1/samples": Samples,
    "/v1/agents": Agent,
    "/v1/agents/{agent}/heartbeat": Heartbeat,
    "/v1/agents/{agent}/measurements/{measurement}/results": Results,
    "/v1/plans/{plan}/observations": Observation,
    "/v1/keys": KeyRequest,
    "/v1/plans/{plan}/labels": LabelChange,
}
WITH_BODY = ("400", "408", "413", "415", "422")
# endpoints that queue a job or wait for one
QUEUES = (
    "/v1/plan",
    "/v1/sweeps",
    "/v1/sweeps/{sweep}",
    ":solve",
    ":measure",
    "/explain",
    "/lease",
    "/v1/jobs/{job}",
    "/events",
)
WITHOUT_ETAG = ("/v1/jobs", "/v1/sweeps")
# endpoints that need an agent, a lease or an exact export
CONFLICTS = (":measure", "/heartbeat", "/results", "/exports/{target}")
# endpoints that name documents in the query or the body
NAMES_OTHERS = (
    "/v1/plan",
    "/v1/sweeps",
    "/v1/cost-graphs:solve",
    "/v1/redistributions",
    "/v1/comparisons",
    "/v1/calibrations:measure",
)
STATUS = {
    "400": "The request is malformed: a long line, or a body that is not JSON or damaged",
    "401": "The key is missing, unknown, revoked or expired",
    "403": "The key lacks the scope, or a page of another origin sent the request",
    "404": "The document does not exist",
    "408": "The body did not arrive in time",
    "409": "A precondition is missing: an exact export, an agent or the lease of an attempt",
    "413": "The body or the document is too large",
    "415": "The media type or the content encoding is not supported",
    "421": "The Host header does not name the service",
    "422": "A parameter or the document is not valid",
    "429": "The tenant has too many jobs or waiting requests; Retry-After states when to retry",
    "503": "The service is not available",
}
HEADER: dict[str, dict[str, Any]] = {
    name: {"description": description, "schema": {"type": "string"}}
    for name, description in {
        "X-Request-ID": "The id of the request in the log, from the client or new",
        "ETag": "The entity tag; If-None-Match with it is answered with 304",
        "Location": "The path of the created resource or of the job",
        "Retry-After": "Seconds",
        "WWW-Authenticate": "The challenges of the authentication schemes",
    }.items()
}
HEADERS: dict[str, tuple[str, ...]] = {
    "201": ("X-Request-ID", "Location"),
    "202": ("X-Request-ID", "Location"),
    "304": ("X-Request-ID", "ETag"),
    "401": ("X-Request-ID", "WWW-Authenticate"),
    "429": ("X-Request-ID", "Retry-After"),
}


def install(app: FastAPI) -> None:
    """Answer /openapi.json with `document`."""

    def once() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = once  # type: ignore[method-assign]  # as FastAPI documents it


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the app."""
    openapi = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = openapi["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM_SCHEMA
    for model in BODIES.values():
        body = model.model_json_schema(ref_template=REF)
        for name, schema in body.pop("$defs", {}).items():
            schemas.setdefault(name, schema)
        schemas.setdefault(model.__name__, body)
    schemas["Observation"]["required"].remove("plan")  # the path names it
    service: State = app.state.service
    if service.settings.root_path:
        openapi["servers"] = [{"url": service.settings.root_path}]
    schemes = service.authentication.schemes
    openapi["components"]["securitySchemes"] = {scheme.name: scheme.security for scheme in schemes}
    security: list[dict[str, Any]] = [{scheme.name: []} for scheme in schemes]
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            _describe(path, method, operation, security)
    return openapi


def _describe(
    path: str, method: str, operation: dict[str, Any], security: list[dict[str, Any]]
) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    statuses = {"400", "421"}
    if "{" in path or path in NAMES_OTHERS:
        statuses.add("404")
    if path not in OPEN:
        statuses.update(("401", "403", "503"))
        operation["security"] = security
    if path.endswith(QUEUES):
        statuses.add("429")
    if operation.get("parameters"):
        statuses.add("422")
    if method in ("post", "patch") and path in BODIES:
        statuses.update(WITH_BODY)
        schema = {"$ref": REF.format(model=BODIES[path].__name__)}
        operation["requestBody"] = {
            "required": True,
            "description": "Plain, or with Content-Encoding gzip or zstd",
            "content": {"application/json": {"schema": schema, "example": examples.BODIES[path]}},
        }
    if path.endswith(CONFLICTS):
        statuses.add("409")
    if path == "/readyz":
        statuses.add("503")
    has_etag = path.count("/") == 3 or path.endswith(("/certificate", "/simulation"))
    if (
        path.startswith("/v1/")
        and method == "get"
        and has_etag
        and not path.startswith(WITHOUT_ETAG)
    ):
        responses["304"] = {"description": "Not modified: If-None-Match names the ETag"}
    for status in sorted(statuses):
        responses[status] = {
            "description": STATUS[status],
            "content": {MEDIA_TYPE: {"schema": PROBLEM}},
        }
    for status, response in responses.items():
        named = HEADERS.get(status, ("X-Request-ID",))
        if status == "200" and "304" in responses:
            named = (*named, "ETag")
        response["headers"] = {name: HEADER[name] for name in named} | response.get("headers", {})
