"""A view of a plan: what is worked out from it and the documents that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright_service.store.encoded_documents import Parts

Sent = Mapping[str, bytes]  # of documents.of_plan


@dataclass(frozen=True, slots=True)
class PlanView:
    """made: of plan, graph, topology, setup and calibration as they are stored, by these names, the
    packed parts; a function of a module. name: with its version: another one for every change of
    what comes of the same documents."""

    name: str
    made: Callable[[Sent], Parts]


def documents_in(sent: Sent) -> tuple[Plan, Graph, Topology, Setup, Calibration]:
    """All that was sent, read."""
    return (
        Plan.from_json(sent["plan"]),
        Graph.from_json(sent["graph"]),
        Topology.from_json(sent["topology"]),
        Setup.from_json(sent["setup"]),
        Calibration.from_json(sent["calibration"]),
    )
