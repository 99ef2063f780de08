"""Real PyTorch programs -> Graph, on the machine that has the framework, without weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshwright.capture.factory import Recipe, capture_factory
from meshwright.capture.interpreter import interpret
from meshwright.capture.module import capture_module

if TYPE_CHECKING:
    from meshwright.capture.hf import capture_hf

__all__ = ["Recipe", "capture_factory", "capture_hf", "capture_module", "interpret"]


def __getattr__(name: str) -> Any:
    """A job that trains needs no transformers, which take seconds to import."""
    if name != "capture_hf":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from meshwright.capture.hf import capture_hf

    return capture_hf
