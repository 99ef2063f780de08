"""Planning requests: the body of POST /v1/plan, its digest and its documents."""

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
from meshwright.schema.setup import check_symbols
from meshwright.schema.sizes import MAX_SIZE
from meshwright.schema.target import setup_for
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
class PlanOrder:
    """A planning request with its documents by id.

    request: the digest of all inputs of the plan. body: the request with ids. documents: the inline
    documents. verify: whether the plan needs a certificate; not part of `request` and `body`,
    because a stored plan can be verified without a new search.
    """

    request: str
    body: dict[str, Any]
    documents: tuple[Document, ...]
    verify: bool = False

    @property
    def inputs(self) -> str:
        """The digest of the request without the planner and its build."""
        return digest("inputs", self.body)

    @property
    def graph(self) -> str:
        return str(self.body["graph"])

    @property
    def topology(self) -> str:
        return str(self.body["topology"])


def understand(body: Mapping[str, Any], planner: str) -> PlanOrder:
    """Parse the body of POST /v1/plan; raises the error of its invalid part.

    The request digest covers the name and build of the planner, which decide the plan.
    """
    for field in body:
        if field not in FIELDS:
            raise RequestError(
                f"unknown field {field[:80]!r}; known are {', '.join(FIELDS)}",
                pointer="/" + field.replace("~", "~0").replace("/", "~1"),
            )
    graph = document_or_id(body, "graph", Graph)
    topology = _topology(body)
    calibration = calibration_part(body)
    terms = Terms.from_dict({field: body[field] for field in REST if field in body})
    setup = setup_for(terms.target, _inline(body, "setup", Setup) or Setup())
    inline = [part for part in (graph, topology, setup, calibration) if isinstance(part, Document)]
    order_body: dict[str, Any] = {
        "graph": id_of(graph),
        "topology": id_of(topology),
        "setup": setup.id,
        **({"calibration": id_of(calibration)} if calibration else {}),
        **_before(body),
        **terms.to_dict(),
    }
    return PlanOrder(_request(order_body, planner), order_body, tuple(inline), _verify(body))


def with_calibration(
    connection: Connection, tenant: Tenant, order: PlanOrder, planner: str
) -> PlanOrder:
    """The request; if it names no calibration, with the tenant's newest one of the topology."""
    if "calibration" in order.body:
        return order
    newest = calibrations.newest(connection, tenant, order.topology)
    if newest is None:
        return order
    body = {**order.body, "calibration": newest}
    return replace(order, request=_request(body, planner), body=body)


def _request(body: Mapping[str, Any], planner: str) -> str:
    return digest("request", {**body, "planner": f"{planner} {planner_build()}"})


def resolve(connection: Connection, tenant: Tenant, order: PlanOrder) -> Request:
    """The request with its documents, inline or from the store.

    The calibration and the running plan only have to exist. Raises NotFound, and RequestError for a
    running plan of another graph, with pointers into the body.
    """
    inline = {document.id: document for document in order.documents}
    stored = {
        field: _read(connection, tenant, kind, field, id_)
        for field, kind in STORED
        if (id_ := order.body.get(field)) and id_ not in inline
    }
    _check_running_plan(connection, tenant, order)

    def document(field: str, kind: type[D]) -> D:
        if field in stored:
            return kind.from_json(stored[field])
        inline_document = inline[order.body[field]]
        assert isinstance(inline_document, kind)  # an id begins with the prefix of its kind
        return inline_document

    return Request(
        graph=document("graph", Graph),
        topology=document("topology", Topology),
        setup=document("setup", Setup),
        **dict(Terms.from_dict({f: order.body[f] for f in REST if f in order.body})),
    )


def validate(request: Request) -> None:
    """Check that the documents match each other, as the search does.

    Raises GraphError, RuleError, SetupError or RequestError with pointers into the body.
    """
    check_setup_symbols(request.graph, request.setup)
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
    """The id of the running plan and the number of remaining steps; empty without a plan."""
    fields = {field: body[field] for field in ("from_plan", "steps") if body.get(field) is not None}
    if not fields:
        return {}
    plan, steps = fields.get("from_plan"), fields.get("steps", DEFAULT_STEPS)
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


def _check_running_plan(connection: Connection, tenant: Tenant, order: PlanOrder) -> None:
    id_ = order.body.get("from_plan")
    if id_ is None:
        return
    try:
        plan = documents.read(connection, tenant, Plan.prefix, id_)
    except NotFound as error:
        raise error.within("/from_plan") from None
    graph = json.loads(plan)["graph"]
    if graph != order.graph:
        raise RequestError(
            f"the plan is of the graph {graph}, the request of {order.graph}. Use the graph of the "
            "running plan",
            pointer="/from_plan",
        )


def check_setup_symbols(graph: Graph, setup: Setup) -> None:
    """Check that the shapes of the graph can be computed with the symbols of the setup."""
    try:
        check_symbols(graph, setup)
    except MeshwrightError as error:
        raise type(error)(error.detail, pointer="/setup/symbols") from None


def _verify(body: Mapping[str, Any]) -> bool:
    verify = body.get("verify", False)
    if not isinstance(verify, bool):
        raise RequestError(
            f"verify is true or false, got {json.dumps(verify)[:80]}", pointer="/verify"
        )
    return verify


def _topology(body: Mapping[str, Any]) -> Topology | str:
    topology = body.get("topology")
    if isinstance(topology, str) and not topology.startswith("topo_"):
        try:
            return preset(topology)
        except InvalidInput as error:
            raise error.within("/topology") from None
    return document_or_id(body, "topology", Topology)


def calibration_part(body: Mapping[str, Any]) -> Calibration | str | None:
    """The calibration of a body, or its id; None for a body without one."""
    return document_or_id(body, "calibration", Calibration) if body.get("calibration") else None


def document_or_id(body: Mapping[str, Any], field: str, kind: type[D]) -> D | str:
    """A document in a field of a body, or its id; raises RequestError for neither."""
    part = body.get(field)
    if part is None:
        raise RequestError(
            f"the field {field!r} is missing: give a document, or the id of a stored one",
            pointer=f"/{field}",
        )
    if isinstance(part, str):
        if not part.startswith(kind.prefix + "_") or not part.isprintable():
            raise RequestError(
                f"{field} {part[:80]!r} is not an id; ids of this kind begin with {kind.prefix}_",
                pointer=f"/{field}",
            )
        return part
    return _document(part, field, kind)


def _inline(body: Mapping[str, Any], field: str, kind: type[D]) -> D | None:
    part = body.get(field)
    return None if part is None else _document(part, field, kind)


def _document(part: Any, field: str, kind: type[D]) -> D:
    try:
        document = kind.from_dict(part)
        document.id  # noqa: B018  raises for numbers that JSON cannot represent
    except MeshwrightError as error:
        raise error.within(f"/{field}") from None
    return document


def id_of(part: Document | str) -> str:
    """The id of a document that a body has inline or by id."""
    return part if isinstance(part, str) else part.id
