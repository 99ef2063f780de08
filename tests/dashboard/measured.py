"""A service with topologies, calibrations and agents to be looked at."""

from __future__ import annotations

import random
from dataclasses import dataclass

import httpx

from meshwright.client import Client
from meshwright.schema import Plan, Topology
from meshwright.schema.observation import Observation
from meshwright.schema.samples import Samples
from tests.costmodel.test_fitting import samples

AGENT = {
    "name": "rack-7", "backend": "nccl", "hosts": [f"rack-7-{n}" for n in range(12)],
    "device": "NVIDIA H100 80GB HBM3", "devices": 16,
    "levels": [
        {"name": "node", "size": 2, "link": "infiniband", "bytes_per_s": 5e10, "source": "/sys"},
        {"name": "gpu", "size": 8, "link": "nvlink", "source": "nvidia-smi topo -m"},
    ],
    "notes": ["rack-7-3 is 12 % slower than the others"],
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Ids of what the service has."""

    topology: str
    samples: str
    calibration: str
    agent: str
    anchored: str


def noisy() -> Samples:
    """Samples of a cluster as a machine gives them: 10 % apart, two far off."""
    own, at = samples(), random.Random(7)
    kernels = [
        one.model_copy(update={"ns": one.ns * at.lognormvariate(0, 0.1), "spread_ns": one.ns / 30})
        for one in own.kernels
    ]
    among = [
        one.model_copy(update={"ns": one.ns * at.lognormvariate(0, 0.1), "spread_ns": one.ns / 20})
        for one in own.collectives
    ]
    kernels[0] = kernels[0].model_copy(update={"ns": kernels[0].ns * 2.5})
    changes = {"kernels": tuple(kernels), "collectives": tuple(among)}
    said = {"software": {"torch": "2.13.0", "nccl": "2.28.3"}, "notes": ("rack-7-3: slow",)}
    return own.model_copy(update={**changes, **said})


def measure(url: str, plan: str) -> Measured:
    """Hand in samples, register an agent, and report steps of a plan."""
    with Client(url) as client:
        made = client.upload_samples(noisy())
        client.upload_topology(mixed())
        own: Plan = client.get_plan(plan)
        step = Observation(plan=plan, step_ns=own.cost.step_ns * 1.2, stack="torchtitan 0.3")
        anchored = client.observe(step)["calibration"]
    agent = httpx.post(f"{url}/v1/agents", json=AGENT).json()["id"]
    return Measured(made["topology"], made["id"], made["calibration"], agent, anchored)


def mixed() -> Topology:
    """Two kinds of devices, one with a name that would be markup elsewhere."""
    first = samples().topology.to_dict()
    link = first["levels"][0]["link"]
    other = {**first["device"], "name": "<img src=x onerror=alert(1)>"}
    alone = {"device": other, "levels": first["levels"][1:], "uplink": link}
    made = {**first, "name": "mixed", "uplink": link, "beside": [alone]}
    return Topology.from_dict(made)
