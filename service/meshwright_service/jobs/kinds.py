"""Kinds of job: the claimant of each kind, and the columns of its answer.

    kind          claimed by   answer
    plan          workers      `plan`
    solution      workers      `solution`
    measurement   agents       `samples` and `calibration`

A kind is a name here, a method of `Jobs` that queues it, and a task in
`meshwright_service.workers.job_tasks` or the loop of the agents. Leases, events, fair shares,
losses and cancellation are the same for all kinds.
"""

from __future__ import annotations

from typing import Literal, get_args

from sqlalchemy import ColumnElement, or_

from meshwright_service.store.tables import JobRow

JobKind = Literal["plan", "solution", "measurement"]
KINDS: tuple[JobKind, ...] = get_args(JobKind)

FOR_AGENTS = JobRow.kind == "measurement"
FOR_WORKERS = JobRow.kind != "measurement"


def has_answer(job: type[JobRow] = JobRow) -> ColumnElement[bool]:
    """SQL condition on a job: it has a plan or a solution."""
    return or_(job.plan.is_not(None), job.solution.is_not(None))
