"""Certificates: the results of executing plans. A certificate is not part of a plan's id."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.model import Document, Number

MAX_DETAIL = 2000  # characters; chosen: lists of jobs and plans carry it


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


class Certificate(Document):
    """The certificate of a plan: a scaled-down execution, compared with the unsharded run."""

    prefix: ClassVar[str] = "cert"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: str = Field(description="The id of the plan.")
    outcome: Literal["verified", "failed", "not verifiable"] = Field(
        description="`verified`: all compared tensors and gradients are equal. `failed`: a "
        "tensor, op or step is wrong. `not verifiable`: the plan has a part that cannot be "
        "executed; this is not a pass."
    )
    detail: Annotated[str, AfterValidator(_truncate)] = Field(
        default="",
        description="The first wrong tensor, op or step, or the part that cannot be executed; for "
        "`verified`, the kinds of ops that ran as stand-ins with the dependences of their rules. "
        "Cut off after 2,000 characters.",
    )
    tensors: int = Field(default=0, ge=0, description="The number of compared tensors.")
    gradients: int = Field(default=0, ge=0, description="The number of compared gradients.")
    buckets: int = Field(
        default=0,
        ge=0,
        description="The number of fused collectives that were executed and compared with the "
        "collectives of their tensors.",
    )
    worst_error: Number = Field(
        default=0.0,
        ge=0,
        description="The largest difference, relative to the largest element of its tensor.",
    )
    seed: int = Field(default=0, description="The random seed of the inputs and parameters.")
