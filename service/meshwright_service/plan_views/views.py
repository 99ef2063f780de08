"""The views that the pages of a plan show first: computed by the search, stored with the plan."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.reports.ops import shares_of
from meshwright.reports.overview import overview_of
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.garbage_collection import uncollected
from meshwright_service.common.zstd import pack
from meshwright_service.plan_views.graph_view.encoding import parts_of
from meshwright_service.plan_views.memory_view import memory_of
from meshwright_service.plan_views.view import PlanView, Sent, documents_in
from meshwright_service.store.encoded_documents import Parts


def _overview(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Parts:
    overview = overview_of(plan, graph, topology, setup, calibration)
    return {0: pack(overview.model_dump_json(exclude_none=True).encode())}


def _memory(plan: Plan) -> Parts:
    return {0: pack(memory_of(plan).model_dump_json().encode())}


def _drawing(plan: Plan, graph: Graph) -> Parts:
    parts = parts_of(tuple(shares_of(plan, graph)))
    return {number: pack(part) for number, part in parts.items()}


@uncollected  # creates many objects and no garbage
def _compute_overview(sent: Sent) -> Parts:
    return _overview(*documents_in(sent))


@uncollected
def _compute_memory(sent: Sent) -> Parts:
    return _memory(Plan.from_json(sent["plan"]))


@uncollected
def _compute_drawing(sent: Sent) -> Parts:
    return _drawing(Plan.from_json(sent["plan"]), Graph.from_json(sent["graph"]))


OVERVIEW = PlanView("overview 10", _compute_overview)
MEMORY = PlanView("memory 2", _compute_memory)
DRAWING = PlanView("drawing 1", _compute_drawing)


@uncollected
def views_of(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Mapping[str, Parts]:
    """The compressed parts of all views, by name."""
    return {
        OVERVIEW.name: _overview(plan, graph, topology, setup, calibration),
        MEMORY.name: _memory(plan),
        DRAWING.name: _drawing(plan, graph),
    }
