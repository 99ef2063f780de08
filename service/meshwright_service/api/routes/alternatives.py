"""Alternatives to a plan by step time and memory, with the reason why each is not the plan."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from meshwright.schema import Considered, Plan, RequestPatch
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.store import plan_index
from meshwright_service.store.pagination import PageRequest

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
MOST = 200  # chosen: the newest stored plans in the comparison

Kind = Literal["chosen", "stored", "considered", "found before"]


class Point(BaseModel):
    """A plan, or a configuration that its search considered.

    kind: the plan itself; another stored plan of the graph on the topology; a configuration that
    the search considered; or an earlier incumbent plan of the search.
    step_ns: estimated for a configuration that was not planned.
    objective_ns: the objective of the search for one mesh.
    on_front: the point fits and is on the Pareto front of step time and memory.
    why: the reason why the point is not the plan.
    asks: a JSON Merge Patch of the plan's request that plans the configuration; None if a request
    cannot state it, and in plans of earlier versions.
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
    """Points by step time, those without a step time last. capacity_bytes: of a device."""

    plan: str
    capacity_bytes: int
    points: tuple[Point, ...]


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Alternatives},
    304: etags.NOT_MODIFIED,
}


@router.get("/alternatives", responses=ANSWERS, summary="List alternatives to a plan")
def get_alternatives(request: Request, service: Service, by: Reader, plan: str) -> Response:
    """Step time and memory of the plan, of the configurations of its search, and of other stored
    plans of the same graph on the same topology."""
    base = service.inspected.of(by.tenant, plan).plan
    with service.database.reading() as connection:
        stored = plan_index.list_plans(
            connection,
            by.tenant,
            PageRequest(size=MOST),
            plan_index.PlanFilter(graph=base.graph, topology=base.topology),
        )
    points = [_plan_point(base), *_configuration_points(base), *_history_points(base)]
    points += [_stored_point(base, other) for other in stored.items if other["id"] != plan]
    alternatives = Alternatives(
        plan=plan,
        capacity_bytes=base.cost.memory_bytes.capacity,
        points=tuple(with_front(points, base.cost.memory_bytes.capacity)),
    )
    return etags.recent_text(request, alternatives.model_dump_json(exclude_none=True))


def with_front(points: list[Point], capacity_bytes: int) -> list[Point]:
    """The points by step time, with those on the Pareto front marked."""
    known = [
        point for point in points if point.step_ns is not None and point.memory_bytes is not None
    ]
    known.sort(key=lambda point: (point.step_ns, point.memory_bytes))
    least = capacity_bytes + 1
    front: set[int] = set()
    for point in known:
        assert point.memory_bytes is not None
        if point.memory_bytes < least:
            least = point.memory_bytes
            front.add(id(point))
    marked = [point.model_copy(update={"on_front": id(point) in front}) for point in points]
    return sorted(marked, key=lambda point: (point.step_ns is None, point.step_ns or 0.0))


def _plan_point(plan: Plan) -> Point:
    return Point(
        kind="chosen",
        plan=plan.id,
        name=plan.name,
        step_ns=plan.cost.step_ns,
        objective_ns=plan.cost.objective_ns,
        memory_bytes=plan.cost.memory_bytes.total,
        why="it is the plan",
    )


def _configuration_points(plan: Plan) -> list[Point]:
    return [
        Point(
            kind="considered",
            name=configuration.configuration,
            step_ns=_step_ns(configuration),
            memory_bytes=configuration.memory_bytes,
            estimated=configuration.cost_ns is None,
            why=configuration.why,
            asks=configuration.request_patch,
        )
        for configuration in plan.search.considered
    ]


def _step_ns(configuration: Considered) -> float | None:
    """The step of a configuration; None for a mesh without a plan, which has a bound alone."""
    if configuration.cost_ns is not None:
        return configuration.cost_ns
    is_mesh = configuration.configuration.startswith("mesh ")
    return None if is_mesh else configuration.estimated_ns


def _history_points(plan: Plan) -> list[Point]:
    """The earlier incumbent plans of the search, without the last one, which became the plan."""
    best = plan.search.cost_ns
    return [
        Point(
            kind="found before",
            name=f"{incumbent.search} on {incumbent.mesh}",
            objective_ns=incumbent.cost_ns,
            why=f"its objective is {incumbent.cost_ns / best:.4f} times the plan's",
        )
        for incumbent in plan.search.history[:-1]
    ]


def _stored_point(plan: Plan, other: dict[str, Any]) -> Point:
    return Point(
        kind="stored",
        plan=other["id"],
        name=other["name"],
        step_ns=other["step_ns"],
        memory_bytes=other["memory_bytes"],
        why=_difference(plan, other),
    )


def _difference(plan: Plan, other: dict[str, Any]) -> str:
    reasons = []
    if other["setup"] != plan.setup:
        reasons.append("it is of another setup")
    slower = other["step_ns"] / plan.cost.step_ns
    reasons.append(f"its step takes {slower:.3f} times as long")
    apart = (other["memory_bytes"] - plan.cost.memory_bytes.total) / 2**30
    if apart:
        reasons.append(f"it needs {abs(apart):.2f} GiB {'more' if apart > 0 else 'less'}")
    return ", ".join(reasons)
