"""Acceptance: the stored answers that a request accepts instead of a new search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from sqlalchemy import ColumnElement, and_, func, or_

from meshwright_service.jobs.kinds import has_answer
from meshwright_service.store.tables import JobRow

OPEN = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Conditions on a stored answer.

    allow_partial: accept answers of searches that a time limit, a cancellation or a memory limit
    ended early. max_age_s: maximum age of an answer, in seconds; None for any age.
    """

    allow_partial: bool = False
    max_age_s: float | None = None

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
        float | None,
        Query(ge=0, le=10**9, description="Seconds; an older answer is searched again"),
    ] = None,
) -> Acceptance:
    """The acceptance that the query parameters of a request state."""
    return Acceptance(allow_partial, max_age)
