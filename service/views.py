"""What the pages of a plan show at first: worked out once, and kept beside it."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.inspecting.ops import OpShare, shares_of
from meshwright.inspecting.overview import overview_of
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.collector import uncollected
from service.drawing.parts import NAME as DRAWING
from service.drawing.parts import parts_of
from service.packing import pack
from service.stored import Parts

OVERVIEW = "overview 1"  # another number where it says something else of the same plan


def overview_parts(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Parts:
    """The overview of a plan as it is kept."""
    made = overview_of(plan, graph, topology, setup, calibration)
    return {0: pack(made.model_dump_json(exclude_none=True).encode())}


def drawing_parts(shares: tuple[OpShare, ...]) -> Parts:
    """The drawing of a plan as it is kept."""
    return {number: pack(part) for number, part in parts_of(shares).items()}


@uncollected  # nothing of what is made here is garbage, and there is much of it
def views_of(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Mapping[str, Parts]:
    """All of them."""
    return {
        OVERVIEW: overview_parts(plan, graph, topology, setup, calibration),
        DRAWING: drawing_parts(tuple(shares_of(plan, graph))),
    }
