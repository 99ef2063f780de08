"""Alternatives: what else could have been the plan, by time and memory, and why it was not."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from meshwright.schema import Plan, RequestPatch
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.store import plan_index
from meshwright_service.store.pagination import PageRequest

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
MOST = 200  # chosen: the newest stored plans that are put beside one

Kind = Literal["chosen", "stored", "considered", "found before"]


class Point(BaseModel):
    """A plan, or what a search looked at.

    kind: the plan itself; another stored plan of the graph on the topology; a configuration that
    its search considered; or an earlier plan of its search. step_ns: of a configuration that was
    not planned it is estimated. objective_ns: of what the search for one mesh compared. on_front:
    it fits, and no other point that fits is as fast and smaller, or as small and faster. why: it is
    not the plan. asks: the change of the plan's request, as a JSON Merge Patch, that plans
    what was considered; none where a request cannot state it, nor in plans of earlier versions.
    """

    kind: Kind
    plan: str | None = None
    name: str
    step_ns: float | None = None
    objective_ns: float | None = None
    memory_bytes: int | None = None
    estimated: bool = False
    on_front: bool = False
    why: str
    asks: RequestPatch | None = None


class Alternatives(BaseModel):
    """Points by their step, those without one last. capacity_bytes: of a device."""

    plan: str
    capacity_bytes: int
    points: tuple[Point, ...]


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Alternatives},
    304: etags.NOT_MODIFIED,
}


@router.get("/alternatives", responses=ANSWERS, summary="What else could have been the plan")
def get_alternatives(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """Time against memory of the plan, of what its search looked at, and of other stored plans of
    the same graph on the same topology."""
    own = service.inspected.of(by.tenant, plan).plan
    with service.database.reading() as connection:
        stored = plan_index.list_plans(
            connection,
            by.tenant,
            PageRequest(size=MOST),
            plan_index.PlanFilter(graph=own.graph, topology=own.topology),
        )
    points = [_chosen(own), *_considered(own), *_history(own)]
    points += [_stored(own, other) for other in stored.items if other["id"] != plan]
    made = Alternatives(
        plan=plan,
        capacity_bytes=own.cost.memory_bytes.capacity,
        points=tuple(with_front(points, own.cost.memory_bytes.capacity)),
    )
    return etags.recent_text(request, made.model_dump_json(exclude_none=True))


def with_front(points: list[Point], capacity_bytes: int) -> list[Point]:
    """The points by their step, with those marked that fit and that nothing that fits undercuts."""
    known = [own for own in points if own.step_ns is not None and own.memory_bytes is not None]
    known.sort(key=lambda own: (own.step_ns, own.memory_bytes))
    least = capacity_bytes + 1
    front: set[int] = set()
    for own in known:
        assert own.memory_bytes is not None
        if own.memory_bytes < least:
            least = own.memory_bytes
            front.add(id(own))
    made = [own.model_copy(update={"on_front": id(own) in front}) for own in points]
    return sorted(made, key=lambda own: (own.step_ns is None, own.step_ns or 0.0))


def _chosen(plan: Plan) -> Point:
    return Point(
        kind="chosen",
        plan=plan.id,
        name=plan.name,
        step_ns=plan.cost.step_ns,
        objective_ns=plan.cost.objective_ns,
        memory_bytes=plan.cost.memory_bytes.total,
        why="it is the plan",
    )


def _considered(plan: Plan) -> list[Point]:
    return [
        Point(
            kind="considered",
            name=own.configuration,
            step_ns=own.estimated_ns if own.cost_ns is None else own.cost_ns,
            memory_bytes=own.memory_bytes,
            estimated=own.cost_ns is None,
            why=own.why,
            asks=own.request_patch,
        )
        for own in plan.search.considered
    ]


def _history(plan: Plan) -> list[Point]:
    """Plans that the search had before a cheaper one; the last is the plan, or what it became."""
    best = plan.search.cost_ns
    return [
        Point(
            kind="found before",
            name=f"{own.search} on {own.mesh}",
            objective_ns=own.cost_ns,
            why=f"its objective is {own.cost_ns / best:.4f} times the plan's",
        )
        for own in plan.search.history[:-1]
    ]


def _stored(plan: Plan, other: dict[str, Any]) -> Point:
    return Point(
        kind="stored",
        plan=other["id"],
        name=other["name"],
        step_ns=other["step_ns"],
        memory_bytes=other["memory_bytes"],
        why=_beside(plan, other),
    )


def _beside(plan: Plan, other: dict[str, Any]) -> str:
    said = []
    if other["setup"] != plan.setup:
        said.append("it is of another setup")
    slower = other["step_ns"] / plan.cost.step_ns
    said.append(f"its step takes {slower:.3f} times as long")
    apart = (other["memory_bytes"] - plan.cost.memory_bytes.total) / 2**30
    if apart:
        said.append(f"it needs {abs(apart):.2f} GiB {'more' if apart > 0 else 'less'}")
    return ", ".join(said)
