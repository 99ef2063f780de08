"""The body of POST /v1/cost-graphs:solve: a cost graph file and options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, Strict

from meshwright.schema import InvalidInput, RequestError
from meshwright.schema.canonical import digest
from meshwright.schema.cost_graph import (
    CostGraphEngine,
    CostGraphFile,
    CostGraphNodes,
    CostGraphProblem,
)
from meshwright_service.api.request_body import Body
from meshwright_service.common.errors import NotJson
from meshwright_service.store.encoded_documents import StoredDocument, stored
from meshwright_solver.planning.build import planner_build

NO_PROBLEM = CostGraphProblem(nodes=CostGraphNodes(intervals=(), costs=(), usages=()))
OPTIONS = ("engine", "seconds", "seed")
OBJECT = re.compile(rb"\s*\{")


class CostGraphRequest(CostGraphFile):
    """A cost graph inline, as `problem`, or by the id of a stored one, and how to search it."""

    prefix: ClassVar[str] = "request"
    error: ClassVar[type[InvalidInput]] = RequestError

    model_config = ConfigDict(extra="forbid")

    problem: CostGraphProblem = Field(default=NO_PROBLEM, description="The cost graph.")
    cost_graph: str | None = Field(
        default=None,
        pattern=r"^costgraph_[0-9a-f]{64}$",
        description="The id of a stored cost graph, in place of `problem`.",
    )
    engine: CostGraphEngine = Field(default="auto", description="The engine that searches.")
    seconds: Annotated[float, Strict(), Field(ge=0, le=10**6)] = Field(
        default=60.0, description="Seconds to search at most."
    )
    seed: Annotated[int, Strict(), Field(ge=0, le=2**31)] = Field(
        default=0, description="The seed of the random moves of the engine `lagrangian`."
    )


@dataclass(frozen=True, slots=True)
class CostGraphOrder:
    """The cost graph of a request, and its options.

    request: the digest of all inputs of the solution. body: the options, and the cost graph by id.
    document: an inline cost graph.
    """

    request: str
    body: dict[str, Any]
    document: StoredDocument | None

    @property
    def inputs(self) -> str:
        """The digest of the request without the solver and its build."""
        return digest("inputs", self.body)

    @property
    def cost_graph(self) -> str:
        """The id of the cost graph."""
        return str(self.body["cost_graph"])


def read_order(body: Body, solver: str) -> CostGraphOrder:
    """Parse a body; raises NotJson, and InvalidInput or RequestError with a pointer into it.

    The request digest covers the name and build of the solver, which decide the solution.
    """
    request = _read(body)
    has_problem = "problem" in request.model_fields_set
    if has_problem == (request.cost_graph is not None):
        raise RequestError(
            "give either problem, a cost graph, or cost_graph, the id of a stored one",
            pointer="/problem" if has_problem else "",
        )
    document = stored(CostGraphFile(problem=request.problem)) if has_problem else None
    id_ = request.cost_graph if document is None else document.id
    options = {option: getattr(request, option) for option in OPTIONS}
    order = {"cost_graph": id_, **options}
    build = f"{solver} {planner_build()}"
    return CostGraphOrder(digest("request", {**order, "solver": build}), order, document)


def _read(body: Body) -> CostGraphRequest:
    text = body.text()
    if not OBJECT.match(text):
        raise NotJson("expected a JSON object with the field problem or cost_graph")
    try:
        return CostGraphRequest.from_json(text)
    except InvalidInput as failure:
        if failure.detail.startswith("this is not JSON"):
            raise NotJson(failure.detail) from None
        raise
