"""A planning request: its body with documents by id, its digest, and its documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from sqlalchemy import Connection

from meshwright.schema import (
    Calibration,
    Document,
    Graph,
    GraphError,
    InvalidInput,
    MeshwrightError,
    NotFound,
    Plan,
    Request,
    RequestError,
    RuleError,
    Setup,
    SetupError,
    Topology,
    Wishes,
)
from meshwright.schema.canonical import digest
from meshwright.schema.migration import DEFAULT_STEPS
from meshwright.schema.sizes import MAX_SIZE
from meshwright_costmodel.presets import preset
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import calibrations, documents
from meshwright_solver.planning.build import planner_build
from meshwright_solver.planning.planner import check as check_request

D = TypeVar("D", bound=Document)
REST = tuple(Wishes.model_fields)
STORED: tuple[tuple[str, type[Document]], ...] = (
    ("graph", Graph),
    ("topology", Topology),
    ("calibration", Calibration),
)
FIELDS = ("graph", "topology", "setup", "calibration", "from_plan", "steps", *REST, "verify")


class Terms(Wishes, Document):
    """The fields of a request that are not documents."""

    prefix: ClassVar[str] = "terms"
    error: ClassVar[type[InvalidInput]] = RequestError


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose documents are named by id. `documents` are those that came inline.

    verify: the plan is to have a certificate. It is no part of `request` and `body`, which say what
    decides the plan: a stored plan answers either way, and is verified without a new search.
    """

    request: str
    body: dict[str, Any]
    documents: tuple[Document, ...]
    verify: bool = False

    @property
    def graph(self) -> str:
        return str(self.body["graph"])

    @property
    def topology(self) -> str:
        return str(self.body["topology"])


def understand(body: Mapping[str, Any], planner: str) -> Asked:
    """Read the body of POST /v1/plan; raises the error of the part that is wrong.

    The request digest covers the planner's name and build: another one may find another plan.
    """
    for field in body:
        if field not in FIELDS:
            raise RequestError(
                f"unknown field {field[:80]!r}; known are {', '.join(FIELDS)}",
                pointer="/" + field.replace("~", "~0").replace("/", "~1"),
            )
    graph = _part(body, "graph", Graph)
    topology = _topology(body)
    setup = _inline(body, "setup", Setup) or Setup()
    calibration = _part(body, "calibration", Calibration) if body.get("calibration") else None
    terms = Terms.from_dict({field: body[field] for field in REST if field in body})
    inline = [part for part in (graph, topology, setup, calibration) if isinstance(part, Document)]
    asked: dict[str, Any] = {
        "graph": _id(graph),
        "topology": _id(topology),
        "setup": setup.id,
        **({"calibration": _id(calibration)} if calibration else {}),
        **_before(body),
        **terms.to_dict(),
    }
    return Asked(_request(asked, planner), asked, tuple(inline), _verify(body))


def with_calibration(connection: Connection, tenant: Tenant, asked: Asked, planner: str) -> Asked:
    """The request with the tenant's newest calibration of the topology, where it names none and
    there is one."""
    if "calibration" in asked.body:
        return asked
    newest = calibrations.newest(connection, tenant, asked.topology)
    if newest is None:
        return asked
    body = {**asked.body, "calibration": newest}
    return replace(asked, request=_request(body, planner), body=body)


def _request(body: Mapping[str, Any], planner: str) -> str:
    return digest("request", {**body, "planner": f"{planner} {planner_build()}"})


def resolved(connection: Connection, tenant: Tenant, asked: Asked) -> Request:
    """The request with its documents, inline or from the store, each read once.

    Its calibration and the plan that runs now have only to be there: nothing is validated by them.
    Raises NotFound, and RequestError of a plan of another graph, with pointers into the body.
    """
    inline = {document.id: document for document in asked.documents}
    stored = {
        field: _read(connection, tenant, kind, field, id_)
        for field, kind in STORED
        if (id_ := asked.body.get(field)) and id_ not in inline
    }
    _check_running_plan(connection, tenant, asked)

    def document(field: str, kind: type[D]) -> D:
        if field in stored:
            return kind.from_json(stored[field])
        found = inline[asked.body[field]]
        assert isinstance(found, kind)  # an id begins with the prefix of its kind
        return found

    return Request(
        graph=document("graph", Graph),
        topology=document("topology", Topology),
        setup=document("setup", Setup),
        **dict(Terms.from_dict({f: asked.body[f] for f in REST if f in asked.body})),
    )


def validate(request: Request) -> None:
    """Refuse now what the search would refuse: documents that do not fit each other.

    Raises GraphError, RuleError, SetupError or RequestError with pointers into the body.
    """
    check_symbols(request.graph, request.setup)
    try:
        check_request(request)
    except SetupError as error:
        raise error.within("/setup") from None
    except (GraphError, RuleError) as error:
        raise error.within("/graph") from None


def _read(
    connection: Connection, tenant: Tenant, kind: type[Document], field: str, id_: str
) -> bytes:
    try:
        return documents.read(connection, tenant, kind.prefix, id_)
    except NotFound:
        raise NotFound(
            f"no {field} has the id {id_[:100]!r}; upload it first, or send it inline",
            pointer=f"/{field}",
        ) from None


def _before(body: Mapping[str, Any]) -> dict[str, Any]:
    """The plan that the job runs now, by id, and how many steps are left."""
    given = {field: body[field] for field in ("from_plan", "steps") if body.get(field) is not None}
    if not given:
        return {}
    plan, steps = given.get("from_plan"), given.get("steps", DEFAULT_STEPS)
    is_id = isinstance(plan, str) and plan.startswith(Plan.prefix + "_") and plan.isprintable()
    if not is_id:
        raise RequestError(
            f"from_plan is the id of the stored plan that the job runs now, got "
            f"{json.dumps(plan)[:80]}",
            pointer="/from_plan",
        )
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MAX_SIZE:
        raise RequestError(
            f"steps is the number of steps left, 1 or more, got {json.dumps(steps)[:80]}",
            pointer="/steps",
        )
    return {"from_plan": plan, "steps": steps}


def _check_running_plan(connection: Connection, tenant: Tenant, asked: Asked) -> None:
    id_ = asked.body.get("from_plan")
    if id_ is None:
        return
    try:
        plan = documents.read(connection, tenant, Plan.prefix, id_)
    except NotFound as error:
        raise error.within("/from_plan") from None
    graph = json.loads(plan)["graph"]
    if graph != asked.graph:
        raise RequestError(
            f"the plan is of the graph {graph}, the request of {asked.graph}. Use the graph of the "
            "running plan",
            pointer="/from_plan",
        )


def check_symbols(graph: Graph, setup: Setup) -> None:
    """Whether the graph has shapes at the setup's symbols."""
    try:
        graph.instantiate(setup.symbols)
    except MeshwrightError as error:
        raise type(error)(error.detail, pointer="/setup/symbols") from None


def _verify(body: Mapping[str, Any]) -> bool:
    given = body.get("verify", False)
    if not isinstance(given, bool):
        raise RequestError(
            f"verify is true or false, got {json.dumps(given)[:80]}", pointer="/verify"
        )
    return given


def _topology(body: Mapping[str, Any]) -> Topology | str:
    given = body.get("topology")
    if isinstance(given, str) and not given.startswith("topo_"):
        try:
            return preset(given)
        except InvalidInput as error:
            raise error.within("/topology") from None
    return _part(body, "topology", Topology)


def _part(body: Mapping[str, Any], field: str, kind: type[D]) -> D | str:
    given = body.get(field)
    if given is None:
        raise RequestError(
            f"the field {field!r} is missing: give a document, or the id of a stored one",
            pointer=f"/{field}",
        )
    if isinstance(given, str):
        if not given.startswith(kind.prefix + "_") or not given.isprintable():
            raise RequestError(
                f"{field} {given[:80]!r} is not an id; ids of this kind begin with {kind.prefix}_",
                pointer=f"/{field}",
            )
        return given
    return _document(given, field, kind)


def _inline(body: Mapping[str, Any], field: str, kind: type[D]) -> D | None:
    given = body.get(field)
    return None if given is None else _document(given, field, kind)


def _document(given: Any, field: str, kind: type[D]) -> D:
    try:
        document = kind.from_dict(given)
        document.id  # noqa: B018  numbers that JSON cannot hold are found here
    except MeshwrightError as error:
        raise error.within(f"/{field}") from None
    return document


def _id(part: Document | str) -> str:
    return part if isinstance(part, str) else part.id
