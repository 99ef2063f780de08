"""Capture of programs of PyTorch, JAX, ONNX and MindSpore as graphs, without weights.

Names are imported on first use: capture of ONNX models does not need PyTorch, and a training job
does not need transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meshwright.capture.from_factory import Recipe, capture_factory
    from meshwright.capture.hf import capture_hf
    from meshwright.capture.interpreter import interpret
    from meshwright.capture.jax import JaxRecipe, capture_jax
    from meshwright.capture.mindspore.from_factory import MindSporeRecipe, capture_mindspore
    from meshwright.capture.module import capture_module
    from meshwright.capture.onnx import capture_onnx
    from meshwright.capture.spmd_region import SpmdRegion

_HOMES = {
    "JaxRecipe": "jax",
    "MindSporeRecipe": "mindspore.from_factory",
    "Recipe": "from_factory",
    "SpmdRegion": "spmd_region",
    "capture_factory": "from_factory",
    "capture_hf": "hf",
    "capture_jax": "jax",
    "capture_mindspore": "mindspore.from_factory",
    "capture_module": "module",
    "capture_onnx": "onnx",
    "interpret": "interpreter",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "JaxRecipe",
    "MindSporeRecipe",
    "Recipe",
    "SpmdRegion",
    "capture_factory",
    "capture_hf",
    "capture_jax",
    "capture_mindspore",
    "capture_module",
    "capture_onnx",
    "interpret",
]
