"""The order in which queued jobs are claimed: fair between tenants, then between their keys."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, func, select
from sqlalchemy.orm import aliased

from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs.kinds import FOR_AGENTS
from meshwright_service.store.tables import JobRow, KeyRow


def fair_share() -> tuple[SQLColumnExpression[Any], ...]:
    """The columns to order claimable jobs by.

    The tenant with the fewest running jobs is first; of equals, the tenant whose last job started
    longest ago. The keys of one tenant share its turns by the same rule, so that making keys does
    not give a tenant more turns. Within a key the oldest job is first.
    """
    return (
        _running_of_tenant(),
        _last_start_of_tenant(),
        _running_of_key(),
        _last_start_of_key(),
        JobRow.created,
        JobRow.id,
    )


def has_fewer_running(tenant: Tenant) -> SQLColumnExpression[bool]:
    """SQL condition on a job: its tenant is another one and has fewer running jobs."""
    beside = aliased(JobRow)
    running = select(func.count()).where(
        beside.state == "running", _is_beside(beside), beside.tenant == tenant
    )
    return and_(JobRow.tenant != tenant, _running_of_tenant() < running.scalar_subquery())


def _is_beside(other: type[JobRow]) -> ColumnElement[bool]:
    """SQL condition on two jobs: both are for workers, or both are for agents."""
    return (other.kind == "measurement") == FOR_AGENTS


def _running_of_tenant() -> SQLColumnExpression[int]:
    beside = aliased(JobRow)
    return (
        select(func.count())
        .where(beside.state == "running", _is_beside(beside), beside.tenant == JobRow.tenant)
        .scalar_subquery()
    )


def _last_start_of_tenant() -> SQLColumnExpression[float]:
    """Seconds since the epoch; 0 for a tenant without keys, or without a job that started."""
    last = select(func.max(KeyRow.served)).where(KeyRow.tenant == JobRow.tenant).scalar_subquery()
    return func.coalesce(last, 0.0)


def _running_of_key() -> SQLColumnExpression[int]:
    beside = aliased(JobRow)
    return (
        select(func.count())
        .where(
            beside.state == "running",
            _is_beside(beside),
            beside.tenant == JobRow.tenant,
            beside.key.is_not_distinct_from(JobRow.key),
        )
        .scalar_subquery()
    )


def _last_start_of_key() -> SQLColumnExpression[float]:
    """Seconds since the epoch; 0 for a job without a key, or where no job of its key started."""
    last = select(KeyRow.served).where(KeyRow.id == JobRow.key).scalar_subquery()
    return func.coalesce(last, 0.0)
