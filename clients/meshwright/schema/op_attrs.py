"""Attributes of ops with evaluated sizes, dtypes and infinities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from meshwright.schema.graph import DTYPE_BYTES
from meshwright.schema.sizes import evaluate


def read_attrs(
    attrs: Mapping[str, Any], sizes: Mapping[str, int], dtype: Callable[[str], Any]
) -> dict[str, Any]:
    """The attributes of an op. `sizes` are the values of symbols; `dtype` looks up a framework's
    dtype by name."""
    return {key: _read(value, sizes, dtype) for key, value in attrs.items()}


def _read(value: Any, sizes: Mapping[str, int], dtype: Callable[[str], Any]) -> Any:
    if isinstance(value, list):
        return [_read(item, sizes, dtype) for item in value]
    if not isinstance(value, str):
        return value
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if value in DTYPE_BYTES:
        return dtype(value)
    if any(symbol in value for symbol in sizes):
        return evaluate(value, sizes)
    return value
