"""Cancellation: a cancelled job is final at once, but its search may still return a plan.

The worker keeps its lease until the search ends; until then it may store a plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, select, update

from meshwright_service.jobs import events, incumbent_plans
from meshwright_service.jobs.leases import Claim
from meshwright_service.store import documents
from meshwright_service.store.database import Database
from meshwright_service.store.document_locks import referring
from meshwright_service.store.encoded_documents import StoredDocument, StoredPlan
from meshwright_service.store.tables import JobRow


def is_cancelled(database: Database, claim: Claim) -> bool:
    """Whether the job was cancelled while this attempt ran."""
    with database.reading() as connection:
        return connection.execute(select(JobRow.id).where(_cancelled(claim))).first() is not None


def keep(
    database: Database,
    claim: Claim,
    plan: StoredPlan,
    *,
    seconds: Sequence[float],
    ended_early: bool,
) -> bool:
    """Store the plan of a cancelled job in one transaction.

    False if the job is not cancelled or has a plan. seconds, ended_early: fields of `Answer`.
    """
    without = and_(_cancelled(claim), JobRow.plan.is_(None))
    with database.writing() as connection:
        job = connection.execute(select(JobRow.key).where(without).with_for_update()).first()
        if job is None:
            return False
        earlier = incumbent_plans.earlier(connection, claim.job, claim.attempt, claim.asked, plan)
        if earlier is not None:
            plan, seconds, ended_early = earlier.plan, earlier.seconds, True
        documents.put_plan(connection, claim.tenant, plan, now=database.now, key=job.key)
        connection.execute(
            update(JobRow)
            .where(without)
            .values(
                plan=plan.id,
                outcome=plan.outcome,
                seconds=list(seconds),
                ended_early=ended_early,
            )
        )
        events.note(connection, claim.job, claim.attempt, {"plan": plan.id}, now=database.now)
        return True


def keep_solution(
    database: Database, claim: Claim, solution: StoredDocument, *, status: str
) -> bool:
    """Store the solution of a cancelled job in one transaction; False if it is not cancelled."""
    with database.writing() as connection:
        referring(connection)  # before the row lock: a deletion may wait for the row
        mine = select(JobRow.id).where(_cancelled(claim)).with_for_update()
        if connection.execute(mine).first() is None:
            return False
        documents.put_encoded(connection, claim.tenant, solution, now=database.now)
        connection.execute(
            update(JobRow)
            .where(_cancelled(claim))
            .values(solution=solution.id, outcome=status, ended_early=True)
        )
        body = {"solution": solution.id}
        events.note(connection, claim.job, claim.attempt, body, now=database.now)
        return True


def let_go(database: Database, claim: Claim) -> None:
    """Release the lease of a cancelled job and store its incumbent plan, if there is one."""
    with database.writing() as connection:
        referring(connection)  # before the row lock: a deletion may wait for the row
        mine = update(JobRow).where(_cancelled(claim)).values(lease_until=None)
        if connection.execute(mine).rowcount:
            incumbent_plans.settle(connection, claim.job, now=database.now)


def _cancelled(claim: Claim) -> ColumnElement[bool]:
    return and_(
        JobRow.id == claim.job, JobRow.attempt == claim.attempt, JobRow.state == "cancelled"
    )
