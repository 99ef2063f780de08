"""Meshwright: plans for distributed training. See `meshwright.schema` and `meshwright.client`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meshwright.runtime.torch import parallelize

__all__ = ["parallelize"]


def __getattr__(name: str) -> Any:
    """Only who trains has PyTorch."""
    if name != "parallelize":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from meshwright.runtime.torch import parallelize

    return parallelize
