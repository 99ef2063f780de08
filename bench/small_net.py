"""A request that is planned in a moment, for what is measured of everything around a search."""

from __future__ import annotations

from typing import Any


def asked(name: str) -> dict[str, Any]:
    """A request for a small net of this name on four devices."""
    return {
        "graph": {
            "name": name,
            "symbols": {"batch": 64},
            "tensors": [
                {"name": "x", "shape": ["batch", 256], "dtype": "bfloat16", "role": "input"},
                {"name": "w", "shape": [256, 256], "dtype": "bfloat16", "role": "parameter"},
                {"name": "y", "shape": ["batch", 256], "dtype": "bfloat16"},
            ],
            "ops": [{"name": "linear", "kind": "matmul", "inputs": ["x", "w"], "outputs": ["y"]}],
            "outputs": ["y"],
        },
        "topology": "h100-1x4",
        "setup": {"phase": "inference"},
    }
