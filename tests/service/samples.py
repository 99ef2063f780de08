"""Small documents for the tests of the service and of the clients."""

from __future__ import annotations

import copy
from typing import Any

from tests.one_stage import ONE_STAGE_BODY

GRAPH: dict[str, Any] = {
    "name": "two layers",
    "symbols": {"batch": 8, "seq": 16},
    "tensors": [
        {"name": "x", "shape": ["batch", 4], "dtype": "float32", "role": "input"},
        {"name": "w.0", "shape": [4, 4], "dtype": "float32", "role": "parameter"},
        {"name": "w.1", "shape": [4, 4], "dtype": "float32", "role": "parameter"},
        {"name": "h", "shape": ["batch", 4], "dtype": "float32"},
        {"name": "y", "shape": ["batch", 4], "dtype": "float32"},
    ],
    "ops": [
        {
            "name": "layers.0.linear",
            "kind": "matmul",
            "inputs": ["x", "w.0"],
            "outputs": ["h"],
            "module": "layers.0",
        },
        {
            "name": "layers.1.linear",
            "kind": "matmul",
            "inputs": ["h", "w.1"],
            "outputs": ["y"],
            "module": "layers.1",
        },
    ],
    "outputs": ["y"],
}

TOPOLOGY: dict[str, Any] = {
    "name": "two by four",
    "device": {
        "name": "toy",
        "memory_bytes": 1 << 30,
        "memory_bytes_per_s": 1e12,
        "flops_per_s": {"float32": 1e13},
    },
    "levels": [
        {
            "name": "node",
            "size": 2,
            "link": {"kind": "infiniband", "bytes_per_s": 2.5e10, "latency_ns": 5000},
        },
        {
            "name": "gpu",
            "size": 4,
            "link": {"kind": "nvlink", "bytes_per_s": 2.5e11, "latency_ns": 2000},
        },
    ],
}

REQUEST: dict[str, Any] = {"graph": GRAPH, "topology": TOPOLOGY, **ONE_STAGE_BODY}


def graph(**changes: Any) -> dict[str, Any]:
    """The graph with other fields."""
    return {**copy.deepcopy(GRAPH), **changes}


def request(**changes: Any) -> dict[str, Any]:
    """The request with other fields."""
    return {**copy.deepcopy(REQUEST), **changes}


def bad_graph(change: str) -> dict[str, Any]:
    """The graph with one thing wrong."""
    made = copy.deepcopy(GRAPH)
    tensors, ops = made["tensors"], made["ops"]
    match change:
        case "cycle":
            ops[0]["inputs"] = ["y", "w.0"]
        case "unknown tensor":
            ops[1]["inputs"] = ["nowhere", "w.1"]
        case "two producers":
            ops[1]["outputs"] = ["h"]
        case "shape against rule":
            ops[0]["rule"] = "b k, k n, n -> b n"
        case "size against rule":
            tensors[1]["shape"] = [5, 4]
            ops[0]["rule"] = "b k, k n -> b n"
        case "size against kind":
            tensors[1]["shape"] = [5, 7]
        case "control sequence":
            made["name"] = "\x1b[2J"
        case "duplicate tensor":
            tensors[1]["name"] = "x"
        case "duplicate op":
            ops[1]["name"] = ops[0]["name"]
        case "absurd size":
            tensors[0]["shape"] = [2**60, 4]
        case "negative size":
            tensors[0]["shape"] = [-4, 4]
        case "division by zero":
            tensors[0]["shape"] = ["batch//0", 4]
        case "not an expression":
            tensors[0]["shape"] = ["__import__('os')", 4]
        case "infinite attribute":
            ops[0]["attrs"] = {"scale": 1e999}
        case "deep attribute":
            value: Any = 1
            for _ in range(100):
                value = [value]
            ops[0]["attrs"] = {"deep": value}
        case "unknown field":
            ops[0]["colour"] = "red"
        case "unknown dtype":
            tensors[0]["dtype"] = "float31"
        case "a million ops":
            made["ops"] = [{}] * 1_000_000
        case _:
            raise KeyError(change)
    return made
