"""Presets over HTTP: the devices that a name may begin with, and the topology of a name."""

from __future__ import annotations

from meshwright.schema import Topology
from meshwright_costmodel.presets import preset
from tests.service.conftest import Serve


def test_every_device_of_the_list_makes_a_preset(serve: Serve) -> None:
    http = serve(workers=0)
    listed = http.get("/v1/presets").json()["presets"]
    assert {"h100", "910b", "tpu-v5p"} <= {own["name"] for own in listed}
    for own in listed:
        sizes = "x".join(map(str, own["largest"]))
        name = f"{own['name']}-{sizes}" if len(own["largest"]) > 1 else f"{own['name']}-2x{sizes}"
        found = Topology.from_dict(http.get(f"/v1/presets/{name}").json())
        assert found == preset(name)
        assert found.device.name == own["device"]
        assert found.device.memory_bytes == own["memory_bytes"]


def test_a_name_that_is_no_preset_is_refused_with_the_remedy(serve: Serve) -> None:
    http = serve(workers=0)
    answer = http.get("/v1/presets/h100-3x9")
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:meshwright:problem:invalid-topology"
    assert "cannot hold 9 devices" in answer.json()["detail"]
    assert http.get("/v1/topologies").json()["topologies"] == []  # nothing is stored by a look
