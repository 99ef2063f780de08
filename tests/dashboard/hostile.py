"""A service full of names that would be markup, script or paths elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from meshwright.client import Client
from meshwright.schema import Graph, Topology
from meshwright.schema.samples import Samples
from meshwright.schema.sweep import Sweep
from tests.costmodel.test_fitting import samples

MARKUP = "<img src=x onerror=alert(1)>"
NAMES = (
    MARKUP,
    "</script><script>alert(1)</script>",
    "\"'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "../../../etc/passwd",
    "%2e%2e%2fkeys",
    "{{7*7}}${7*7}",
    "שלום (א) עולם",
    "__proto__",
    "constructor",
    "ﷺ" * 20,
    "e" + "\u0301" * 60,
    "👩👧",
    "w" * 500,
)
BACKWARDS = "\u202e\u2066 read from the right \u2069"  # where a text may have any character
LONG = "x" * 10_000


@dataclass(frozen=True)
class Hostile:
    """Ids by the names of path parameters, of what the service has."""

    url: str
    ids: dict[str, str]
    other: str  # a second plan


def graph(name: str) -> Graph:
    """A chain of products, each op, tensor and module with a name of NAMES."""
    tensors: list[dict[str, Any]] = [
        {"name": "x", "shape": ["batch", 64], "dtype": "float32", "role": "input"}
    ]
    ops, last = [], "x"
    for at, own in enumerate(NAMES):
        weight, made = f"{own} w", f"{own} y"[:512]
        tensors.append({"name": weight, "shape": [64, 64], "dtype": "float32", "role": "parameter"})
        tensors.append({"name": made, "shape": ["batch", 64], "dtype": "float32"})
        ops.append({"name": own, "kind": "matmul", "inputs": [last, weight], "outputs": [made],
                    "module": f"{own[:200]}.{at}"})  # fmt: skip
        last = made
    return Graph.from_dict({
        "name": name, "symbols": {"batch": 64}, "tensors": tensors, "ops": ops, "outputs": [last],
        "notes": [MARKUP, BACKWARDS, LONG],
    })  # fmt: skip


def cluster() -> dict[str, Any]:
    """The topology of the samples, with other names."""
    own = samples().topology.to_dict()
    own["device"] |= {"name": MARKUP, "source": BACKWARDS + LONG}
    for level in own["levels"]:
        level["link"]["kind"] = NAMES[1]
    return {**own, "name": NAMES[-1], "source": f"{MARKUP} {LONG}"}


def fill(url: str, client: Client) -> Hostile:
    """Store something hostile of everything."""
    topology = Topology.from_dict(cluster())
    measured: Samples = samples().model_copy(
        update={"topology": topology, "notes": (MARKUP, BACKWARDS, LONG),
                "software": {MARKUP: NAMES[2]}}
    )  # fmt: skip
    made = client.upload_samples(measured)
    first, second = (
        client.plan(graph(name), topology, calibration=made["calibration"]).plan
        for name in (NAMES[0], NAMES[7])
    )
    assert first is not None
    assert second is not None
    client.labels(first.id, add=[MARKUP, "w" * 64])
    step = {"step_ns": first.cost.step_ns * 3, "stack": MARKUP}
    httpx.post(f"{url}/v1/plans/{first.id}/observations", json=step).raise_for_status()
    found = {"name": MARKUP, "size": 4, "link": NAMES[3], "source": NAMES[-1]}
    agent = {"name": MARKUP, "backend": "nccl", "hosts": list(NAMES), "device": NAMES[1],
             "devices": 4, "notes": [NAMES[2]], "levels": [found]}  # fmt: skip
    httpx.post(f"{url}/v1/agents", json=agent).raise_for_status()
    (job,) = [own for own in client.jobs() if own.get("plan") == first.id]
    points = Sweep(name=MARKUP, topologies=(topology,), batches=(32, 64))
    sweep = client.begin_sweep(first.graph, points)["id"]
    client.follow_sweep(sweep)
    ids = {"plan": first.id, "job": job["id"], "graph": first.graph, "topology": topology.id,
           "calibration": made["calibration"], "sweep": sweep}  # fmt: skip
    return Hostile(url, ids, second.id)
