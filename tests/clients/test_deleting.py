"""What a client deletes is gone, and what is needed says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.client import Client
from meshwright.schema import Graph, InUse, NotFound, Topology
from tests.costmodel.test_fitting import samples
from tests.service.conftest import server
from tests.service.samples import GRAPH, TOPOLOGY


def test_all_that_is_stored_goes_in_order(tmp_path: Path) -> None:
    with server(tmp_path) as (url, _), Client(url) as client:
        made = client.upload_samples(samples())
        (entry,) = client.calibrations(topology=made["topology"])
        assert entry["id"] == made["calibration"]
        assert list(client.calibrations(topology="topo_0")) == []
        plan = client.plan(
            Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY), calibration=entry["id"]
        ).plan
        assert plan is not None
        (found,) = client.plans(calibration=entry["id"])
        assert found["id"] == plan.id
        for refused, id_ in (
            (client.delete_graph, plan.graph),
            (client.delete_topology, plan.topology),
            (client.delete_calibration, plan.calibration),
            (client.delete_samples, made["id"]),
        ):
            with pytest.raises(InUse):
                refused(id_)
        for delete, id_ in (
            (client.delete_plan, plan.id),
            (client.delete_graph, plan.graph),
            (client.delete_topology, plan.topology),
            (client.delete_calibration, plan.calibration),
            (client.delete_samples, made["id"]),
        ):
            delete(id_)
            with pytest.raises(NotFound):
                delete(id_)
