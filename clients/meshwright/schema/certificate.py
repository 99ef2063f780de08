"""Certificates: what the execution of a plan showed. Records beside a plan, outside its id."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.model import Document, Number

MAX_DETAIL = 2000  # characters; chosen: lists of jobs and plans carry it


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


class Certificate(Document):
    """The outcome of executing a plan, scaled down, and comparing it with the unsharded run.

    verified         all `tensors` and `gradients` compared are equal
    failed           `detail` names the first tensor, op or step that is wrong
    not verifiable   `detail` says what cannot be executed; never a pass

    buckets: so many collectives of several tensors ran too, each to what these make alone.
    worst_error: the largest difference, as a share of its tensor's largest element.
    detail: cut off after MAX_DETAIL characters.
    """

    prefix: ClassVar[str] = "cert"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    plan: str
    outcome: Literal["verified", "failed", "not verifiable"]
    detail: Annotated[str, AfterValidator(_shortened)] = ""
    tensors: int = Field(default=0, ge=0)
    gradients: int = Field(default=0, ge=0)
    buckets: int = Field(default=0, ge=0)
    worst_error: Number = Field(default=0.0, ge=0)
    seed: int = 0
