"""Requests for one stage without recomputation, in tests whose subject is neither."""

from __future__ import annotations

from typing import Any

from bench.one_stage import ONE_STAGE
from meshwright.schema import Budget, Request

# the same in the body of a request
ONE_STAGE_BODY: dict[str, Any] = {"pipeline": {"ranks": 1}, "recompute": {"policy": "none"}}


def one_stage_request(**fields: Any) -> Request:
    """A request without a time limit; fields: all others, and those that differ."""
    return Request(**{**ONE_STAGE, "budget": Budget(seconds=None), **fields})
