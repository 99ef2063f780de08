"""Ops that drop elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def drops(kind: str, attrs: Mapping[str, Any]) -> bool:
    """Whether an op drops elements."""
    return bool(attrs.get({"dropout": "p", "attention": "dropout"}.get(kind, "")))
