"""Meshwright: plans for distributed training. See `meshwright.schema` and `meshwright.client`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meshwright.runtime.torch import parallelize, plan

    __version__: str

__all__ = ["__version__", "parallelize", "plan"]


def __getattr__(name: str) -> Any:
    """Load an attribute at its first use: PyTorch is optional, and the metadata is slow to read."""
    if name == "__version__":
        from importlib.metadata import version

        return version("meshwright")
    if name in ("parallelize", "plan"):
        from meshwright.runtime import torch

        return getattr(torch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
