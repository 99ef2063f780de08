"""Example bodies of the endpoints for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.presets import preset

GRAPH: dict[str, Any] = {
    "name": "one product",
    "symbols": {"batch": 64},
    "tensors": [
        {"name": "x", "shape": ["batch", 4096], "dtype": "bfloat16", "role": "input"},
        {"name": "w", "shape": [16384, 4096], "dtype": "bfloat16", "role": "parameter"},
        {"name": "y", "shape": ["batch", 16384], "dtype": "bfloat16"},
    ],
    "ops": [{"name": "up", "kind": "linear", "inputs": ["x", "w"], "outputs": ["y"]}],
    "outputs": ["y"],
}
TOPOLOGY: dict[str, Any] = {
    "name": "two devices",
    "device": {
        "name": "CPU",
        "memory_bytes": 1 << 34,
        "memory_bytes_per_s": 2.0e10,
        "flops_per_s": {"float32": 1.0e11},
    },
    "levels": [
        {"name": "host", "size": 2,
         "link": {"kind": "shared memory", "bytes_per_s": 5.0e9, "latency_ns": 20_000}},
    ],
}  # fmt: skip
SAMPLES: dict[str, Any] = {
    "backend": "gloo",
    "topology": TOPOLOGY,
    "measured_at": "2026-11-23T02:00:00+00:00",
    "kernels": [
        {"kind": "matmul", "dtype": "float32", "shape": [size, size, size], "flops": 2.0 * size**3,
         "bytes_moved": 12.0 * size**2, "ns": 2.0 * size**3 / 50, "spread_ns": 1000.0, "runs": 10}
        for size in (256, 512, 1024)
    ],
    "collectives": [
        {"kind": "all_reduce", "dtype": "float32", "payload_bytes": size, "extents": [2],
         "ns": 40_000 + size / 2.5, "spread_ns": 1000.0, "runs": 10}
        for size in (1 << 12, 1 << 16, 1 << 20, 1 << 24)
    ],
}  # fmt: skip
COST_GRAPH: dict[str, Any] = {
    "problem": {
        "name": "two products",
        "nodes": {
            "intervals": [[0, 2], [1, 3]],
            "costs": [[10, 30], [20, 5]],
            "usages": [[40, 15], [25, 50]],
        },
        "edges": {"nodes": [[0, 1]], "costs": [[0, 8, 8, 0]]},
        "usage_limit": 70,
    },
    "seconds": 10,
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/plan": {"graph": GRAPH, "topology": "h100-2x8", "budget": {"seconds": 60}},
    "/v1/sweeps": {
        "graph": GRAPH,
        "topologies": ["h100-{1,2,4}x8"],
        "batches": [64, 128],
        "prices": {"h100": 2.5},
    },
    "/v1/cost-graphs:solve": COST_GRAPH,
    "/v1/graphs": GRAPH,
    "/v1/topologies": preset("h100-1x8").to_dict(),
    "/v1/calibrations": datasheet_calibration().to_dict(),
    "/v1/calibrations:measure": {"backend": "nccl", "seconds": 120},
    "/v1/samples": SAMPLES,
    "/v1/agents": {
        "name": "node-7", "backend": "nccl", "hosts": ["node-7"], "device": "NVIDIA H100",
        "devices": 8,
    },
    "/v1/agents/{agent}/heartbeat": {},
    "/v1/agents/{agent}/measurements/{measurement}/results": {"attempt": 1, "released": True},
    "/v1/plans/{plan}/observations": {
        "step_ns": 1.25e9, "steps": 100, "stack": "torchtitan 0.3, compiled",
    },
    "/v1/keys": {"name": "controller", "scopes": ["read", "plan"], "expires_s": 7_776_000},
    "/v1/plans/{plan}/labels": {"add": ["production"], "remove": ["candidate"]},
}  # fmt: skip
