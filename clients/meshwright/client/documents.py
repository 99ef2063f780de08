"""Graphs, topologies, calibrations and samples at a service."""

from __future__ import annotations

from typing import Any

from meshwright.client.exchange import Exchange, deleted, got, posted, segment
from meshwright.client.method_descriptor import Shelf
from meshwright.schema import Calibration, Graph, Setup, Topology
from meshwright.schema.residuals import Residuals
from meshwright.schema.samples import Samples
from meshwright.schema.topology_rates import TopologyRates


def upload_graph(graph: Graph) -> Exchange[str]:
    """Store a graph; its id."""
    return str((yield from posted("/v1/graphs", graph.to_dict()))["id"])


def upload_topology(topology: Topology) -> Exchange[str]:
    """Store a topology; its id."""
    return str((yield from posted("/v1/topologies", topology.to_dict()))["id"])


def upload_calibration(calibration: Calibration) -> Exchange[str]:
    """Store a calibration; its id."""
    return str((yield from posted("/v1/calibrations", calibration.to_dict()))["id"])


def upload_samples(samples: Samples) -> Exchange[dict[str, Any]]:
    """Store samples; the ids of them, of their topology and of the calibration fitted to them.

    `median_error` says how well that tells the samples' times.
    """
    return (yield from posted("/v1/samples", samples.to_dict()))


def get_graph(graph: str) -> Exchange[Graph]:
    """A stored graph."""
    return Graph.from_dict((yield from got(f"/v1/graphs/{segment(graph)}")))


def get_topology(topology: str) -> Exchange[Topology]:
    """A stored topology."""
    return Topology.from_dict((yield from got(f"/v1/topologies/{segment(topology)}")))


def rates(topology: str, *, calibration: str | None = None) -> Exchange[TopologyRates]:
    """What a stored topology keeps of its data sheets, by a calibration: the newest that was
    measured in it where none is named."""
    path = f"/v1/topologies/{segment(topology)}/rates"
    return TopologyRates.from_dict((yield from got(path, calibration=calibration)))


def topology_observations(topology: str) -> Exchange[dict[str, Any]]:
    """The observed steps of all plans for a stored topology: `stacks`, each with the median and the
    spread of its ratios, and `observations`, the newest first."""
    return (yield from got(f"/v1/topologies/{segment(topology)}/observations"))


def get_setup(setup: str) -> Exchange[Setup]:
    """The stored setup that a plan names."""
    return Setup.from_dict((yield from got(f"/v1/setups/{segment(setup)}")))


def get_calibration(calibration: str) -> Exchange[Calibration]:
    """A stored calibration."""
    return Calibration.from_dict((yield from got(f"/v1/calibrations/{segment(calibration)}")))


def residuals(calibration: str) -> Exchange[Residuals]:
    """What a stored calibration says of its samples, over what they took."""
    path = f"/v1/calibrations/{segment(calibration)}/residuals"
    return Residuals.from_dict((yield from got(path)))


def graphs() -> Shelf:
    """Entries of the stored graphs, the newest first."""
    return Shelf("graphs")


def topologies() -> Shelf:
    """Entries of the stored topologies, the newest first."""
    return Shelf("topologies")


def calibrations(*, topology: str | None = None) -> Shelf:
    """Entries of the stored calibrations, the newest first; with the id of a topology, those that
    were measured in it."""
    return Shelf("calibrations", {"topology": topology})


def samples() -> Shelf:
    """Entries of the stored samples, the newest first."""
    return Shelf("samples")


def delete_graph(graph: str) -> Exchange[None]:
    """Delete a stored graph; InUse while a plan or an open job needs it."""
    return (yield from deleted(f"/v1/graphs/{segment(graph)}"))


def delete_topology(topology: str) -> Exchange[None]:
    """Delete a stored topology; InUse while a plan or an open job needs it."""
    return (yield from deleted(f"/v1/topologies/{segment(topology)}"))


def delete_calibration(calibration: str) -> Exchange[None]:
    """Delete a stored calibration; InUse while a plan or an open job needs it."""
    return (yield from deleted(f"/v1/calibrations/{segment(calibration)}"))


def delete_samples(samples: str) -> Exchange[None]:
    """Delete stored samples; InUse while a calibration is fitted to them."""
    return (yield from deleted(f"/v1/samples/{segment(samples)}"))
