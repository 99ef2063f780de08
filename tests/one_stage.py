"""Requests for one stage without recomputation, in tests whose subject is neither."""

from __future__ import annotations

from typing import Any

from meshwright.schema import Budget, Request
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright.schema.recompute import NO_RECOMPUTE

ONE_STAGE: dict[str, Any] = {"pipeline": NO_PIPELINE, "recompute": NO_RECOMPUTE}
# the same in the body of a request and on the command line
ONE_STAGE_BODY: dict[str, Any] = {"pipeline": {"ranks": 1}, "recompute": {"policy": "none"}}
ONE_STAGE_OPTIONS = ("--pipeline", "none", "--recompute", "none")


def one_stage_request(**fields: Any) -> Request:
    """A request without a time limit; fields: all others, and those that differ."""
    return Request(**{**ONE_STAGE, "budget": Budget(seconds=None), **fields})
