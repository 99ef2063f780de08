"""Views of a plan: results computed from a plan and the documents that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright_service.store.encoded_documents import Parts

Sent = Mapping[str, bytes]  # JSON of documents by name, from `documents.of_plan`


@dataclass(frozen=True, slots=True)
class PlanView:
    """A kind of view.

    name: with a version, which every change of the result increments. compute: a module-level
    function from the JSON of plan, graph, topology, setup and calibration to the compressed parts.
    """

    name: str
    compute: Callable[[Sent], Parts]


def documents_in(sent: Sent) -> tuple[Plan, Graph, Topology, Setup, Calibration]:
    """The parsed documents."""
    return (
        Plan.from_json(sent["plan"]),
        Graph.from_json(sent["graph"]),
        Topology.from_json(sent["topology"]),
        Setup.from_json(sent["setup"]),
        Calibration.from_json(sent["calibration"]),
    )
