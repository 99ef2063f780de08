"""Observed steps of all plans for a topology, beside their predictions, by software stack."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from pydantic import BaseModel
from sqlalchemy import Connection, Row, and_, func, select

from meshwright.schema import Calibration, Setup, Topology
from meshwright_costmodel.anchoring import anchored
from meshwright_service.common.clock import time_of
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.tables import ObservationRow, PlanRow

MOST_OBSERVED = 500  # chosen: dots that a chart can show


class ObservedStep(BaseModel):
    """An observed step beside its prediction.

    ratio: observed over predicted. interval: the 80 % interval of the prediction, as ratios; None
    if it is unknown. outside: whether the ratio is outside of it. predicted_memory_bytes: without
    the reserve; None if no memory was observed.
    """

    id: str
    created_at: str
    plan: str
    plan_name: str
    stack: str
    job: str
    steps: int
    step_ns: float
    predicted_step_ns: float
    ratio: float
    interval: tuple[float, float] | None = None
    outside: bool = False
    memory_bytes: int | None = None
    predicted_memory_bytes: int | None = None


class ObservedStack(BaseModel):
    """The observations of a stack for plans of one calibration.

    median, lowest, highest: of the ratios. outside: observations outside of their interval.
    anchored: the calibration that these observations anchor; None if it is deleted. plan: the plan
    of the newest observation.
    """

    stack: str
    calibration: str
    observations: int
    median: float
    lowest: float
    highest: float
    outside: int
    anchored: str | None = None
    plan: str


class TopologyObservations(BaseModel):
    """The observations of all plans for a topology, newest first. total: the number of all."""

    topology: str
    stacks: tuple[ObservedStack, ...]
    observations: tuple[ObservedStep, ...]
    total: int


def observations_of_topology(
    connection: Connection, tenant: Tenant, topology: str
) -> TopologyObservations:
    """The newest observations for a topology; raises NotFound for an unknown topology."""
    documents.check(connection, tenant, Topology.prefix, topology)
    mine = ObservationRow.tenant == tenant, ObservationRow.topology == topology
    plan_row = and_(PlanRow.tenant == ObservationRow.tenant, PlanRow.id == ObservationRow.plan)
    rows = connection.execute(
        select(ObservationRow, PlanRow.summary)
        .join(PlanRow, plan_row)
        .where(*mine)
        .order_by(ObservationRow.created.desc(), ObservationRow.id.desc())
        .limit(MOST_OBSERVED)
    ).all()
    total = connection.execute(
        select(func.count()).select_from(ObservationRow).where(*mine)
    ).scalar_one()
    reserves = _reserves(connection, tenant, {row.summary["setup"] for row in rows})
    steps = [_step(row, reserves[row.summary["setup"]]) for row in rows]
    groups: defaultdict[tuple[str, str], list[ObservedStep]] = defaultdict(list)
    for row, step in zip(rows, steps, strict=True):
        groups[step.stack, row.calibration].append(step)
    stacks = [
        _stack(connection, tenant, stack, calibration, group)
        for (stack, calibration), group in groups.items()
    ]
    return TopologyObservations(
        topology=topology, stacks=tuple(stacks), observations=tuple(steps), total=total
    )


def _reserves(connection: Connection, tenant: Tenant, setups: set[str]) -> dict[str, float]:
    """The share of memory that each setup reserves."""
    return {
        id_: documents.parsed(connection, tenant, Setup, id_).memory_reserve
        for id_ in sorted(setups)
    }


def _step(row: Row[tuple[object, ...]], reserve: float) -> ObservedStep:
    body, summary = row.body, row.summary
    figures = summary.get("figures") or {}
    interval_ns = figures.get("step_interval_ns")
    predicted_ns = summary["step_ns"]
    interval = None
    if interval_ns:
        interval = interval_ns[0] / predicted_ns, interval_ns[1] / predicted_ns
    memory_bytes = body.get("memory_bytes")
    used_bytes = summary["memory_bytes"] - round(summary["capacity_bytes"] * reserve)
    return ObservedStep(
        id=row.id,
        created_at=time_of(row.created),
        plan=row.plan,
        plan_name=summary["name"],
        stack=row.stack,
        job=body.get("job", ""),
        steps=body.get("steps", 1),
        step_ns=body["step_ns"],
        predicted_step_ns=predicted_ns,
        ratio=row.ratio,
        interval=interval,
        outside=interval is not None and not interval[0] <= row.ratio <= interval[1],
        memory_bytes=memory_bytes,
        predicted_memory_bytes=None if memory_bytes is None else used_bytes,
    )


def _stack(
    connection: Connection,
    tenant: Tenant,
    stack: str,
    calibration: str,
    group: Sequence[ObservedStep],
) -> ObservedStack:
    ratios = [step.ratio for step in reversed(group)]
    base = documents.calibration(connection, tenant, calibration)
    corrected = anchored(base, ratios, stack).id
    is_stored = documents.exists(connection, tenant, Calibration.prefix, corrected)
    return ObservedStack(
        stack=stack,
        calibration=calibration,
        observations=len(group),
        median=statistics.median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        outside=sum(step.outside for step in group),
        anchored=corrected if is_stored else None,
        plan=group[0].plan,
    )
