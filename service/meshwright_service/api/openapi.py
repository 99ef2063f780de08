"""The OpenAPI document: FastAPI's, with our problems in place of its own errors."""

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
from meshwright_service.api.state import State

PROBLEM = {"$ref": "#/components/schemas/Problem"}
REF = "#/components/schemas/{model}"
BODIES: dict[str, type[BaseModel]] = {
    "/v1/plan": PlanRequest,
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
# what counts as a job, or waits for one
QUEUES = ("/v1/plan", ":solve", ":measure", "/explain", "/lease", "/v1/jobs/{job}", "/events")
# what the endpoint needs is another's now, or nobody's
CONFLICTS = (":measure", "/heartbeat", "/results", "/exports/{target}")
# documents are named in the query or the body, not in the path
NAMES_OTHERS = (
    "/v1/plan",
    "/v1/cost-graphs:solve",
    "/v1/redistributions",
    "/v1/comparisons",
    "/v1/calibrations:measure",
)
STATUS = {
    "400": "The request cannot be read: too long a line, or a body that is no JSON or damaged",
    "401": "There is no key, or it is unknown, revoked or expired",
    "403": "The key lacks the scope, or the page of another host sent this",
    "404": "There is no such document",
    "408": "The body did not arrive in time",
    "409": "What this needs is not there: words of the target, an agent, the lease of an attempt",
    "413": "The body or the document is too large",
    "415": "The body has a type that is not understood",
    "421": "The service is not called so",
    "422": "A parameter or the document is not valid",
    "429": "The tenant has too many jobs, or waits; Retry-After says when to ask again",
    "503": "The service cannot work now",
}
HEADER: dict[str, dict[str, Any]] = {
    name: {"description": said, "schema": {"type": "string"}}
    for name, said in {
        "X-Request-ID": "The caller's, or one that was made: the log names it",
        "ETag": "Names the answer; If-None-Match with it is answered 304",
        "Location": "The path of what was made, where that has one, or of the job",
        "Retry-After": "Seconds",
        "WWW-Authenticate": "The challenge of every authentication scheme",
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

    app.openapi = once  # type: ignore[method-assign]  # the way that FastAPI documents


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the app."""
    made = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM_SCHEMA
    for model in BODIES.values():
        body = model.model_json_schema(ref_template=REF)
        for name, schema in body.pop("$defs", {}).items():
            schemas.setdefault(name, schema)
        schemas.setdefault(model.__name__, body)
    schemas["Observation"]["required"].remove("plan")  # the path says it
    service: State = app.state.service
    schemes = service.authentication.schemes
    made["components"]["securitySchemes"] = {scheme.name: scheme.security for scheme in schemes}
    security: list[dict[str, Any]] = [{scheme.name: []} for scheme in schemes]
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            _describe(path, method, operation, security)
    return made


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
    if path.startswith("/v1/") and method == "get" and has_etag and "jobs" not in path:
        responses["304"] = {"description": "The caller has it: If-None-Match names its ETag"}
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
