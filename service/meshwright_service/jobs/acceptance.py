"""Acceptance: the stored answers that a request accepts instead of a new search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from pydantic import BeforeValidator, WithJsonSchema
from sqlalchemy import ColumnElement, and_, func, or_

from meshwright.common.durations import MAX_AGE_S, PATTERN, seconds_of
from meshwright_service.jobs.kinds import has_answer
from meshwright_service.store.tables import JobRow

OPEN = ("queued", "running")
MaxAge = Annotated[
    float,
    BeforeValidator(seconds_of),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": MAX_AGE_S},
                {"type": "string", "pattern": PATTERN},
            ]
        }
    ),
]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Conditions on a stored answer.

    allow_partial: accept answers of searches that a time limit, a cancellation or a memory limit
    ended early. max_age_s: maximum age of an answer, in seconds; with one, an answer of another
    build of the planner is accepted too. None: any age, and only answers of this build.
    """

    allow_partial: bool = False
    max_age_s: float | None = None

    @property
    def of_any_build(self) -> bool:
        """Whether an answer of another build of the planner is accepted."""
        return self.max_age_s is not None

    def conditions(self, now: ColumnElement[float]) -> Iterator[ColumnElement[bool]]:
        """SQL conditions on a job of the request: it has an accepted answer, or may get one."""
        is_open = JobRow.state.in_(OPEN)
        has_ended = or_(JobRow.state == "succeeded", has_answer())
        if self.max_age_s is not None:
            has_ended = and_(has_ended, JobRow.finished >= now - self.max_age_s)
        if self.allow_partial:
            # a cancelled search without a plan or a solution is no answer
            yield or_(is_open, has_ended)
            return
        reason = func.coalesce(JobRow.infeasible["constraint"].as_string(), "")
        yield JobRow.ended_early.is_(False)  # set on an open job that verifies its plan
        outcome = func.coalesce(JobRow.outcome, "")
        yield or_(is_open, and_(has_ended, reason != "time", outcome != "unknown"))


def read_acceptance(
    allow_partial: Annotated[
        bool, Query(description="A stored plan answers too whose search was cut short")
    ] = False,
    max_age: Annotated[
        MaxAge | None,
        Query(
            ge=0,
            le=MAX_AGE_S,
            description="Seconds, or a duration such as 12h or 7d: accepts a stored answer of any "
            "build of the planner that is not older",
        ),
    ] = None,
) -> Acceptance:
    """The acceptance that the query parameters of a request state."""
    return Acceptance(allow_partial, max_age)
