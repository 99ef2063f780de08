"""Stored plans: what they are, what they do, what was measured of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from meshwright.client.exchange import (
    ApiCall,
    Exchange,
    asked,
    deleted,
    got,
    moment,
    posted,
    segment,
    value_of,
)
from meshwright.client.method_descriptor import Shelf
from meshwright.schema import Certificate, Plan
from meshwright.schema.communication import Communication
from meshwright.schema.comparison import Comparison
from meshwright.schema.comparison_table import ComparisonTable
from meshwright.schema.costly_ops import CostliestOps
from meshwright.schema.explanation import Explanation
from meshwright.schema.observation import Observation
from meshwright.schema.overview import Overview
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.simulation import Simulation
from meshwright.schema.tensor_layouts import TensorLayouts
from meshwright.schema.transfer import DeviceTransfer, MovedStates, Transfer


def get_plan(plan: str) -> Exchange[Plan]:
    """A stored plan."""
    return Plan.from_dict((yield from got(f"/v1/plans/{segment(plan)}")))


def asked_for(plan: str) -> Exchange[dict[str, Any]]:
    """The body of POST /v1/plan that asks for a stored plan again: documents by id, the setup
    itself."""
    return (yield from got(f"/v1/plans/{segment(plan)}/request"))


def plans(
    *,
    graph: str | None = None,
    topology: str | None = None,
    model: str | None = None,
    label: str | None = None,
    outcome: str | None = None,
    solver: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    calibration: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    target: str | None = None,
    fits: bool | None = None,
    headroom: float | None = None,
    batch: int | None = None,
    devices: int | None = None,
    sort: str | None = None,
) -> Shelf:
    """Summaries of the stored plans, the newest first. model, label: globs; since, until: with a
    zone. fits: whether the peak memory is within the device memory. headroom: its least free share.
    target: a framework, or "none". sort: created, step, throughput, device_throughput, utilization,
    headroom, devices or batch; with a minus before it, descending."""
    filters: dict[str, object] = {"graph": graph, "topology": topology, "model": model}
    filters |= {"label": label}
    filters |= {"outcome": outcome, "solver": solver, "certificate": certificate, "key": key}
    filters |= {"calibration": calibration, "since": moment(since), "until": moment(until)}
    filters |= {"target": target, "fits": fits, "headroom": headroom, "batch": batch}
    filters |= {"devices": devices, "sort": sort}
    return Shelf("plans", filters)


def delete_plan(plan: str) -> Exchange[None]:
    """Delete a stored plan and all that is known of it; InUse while an open job needs it."""
    return (yield from deleted(f"/v1/plans/{segment(plan)}"))


def labels(
    plan: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> Exchange[tuple[str, ...]]:
    """The labels of a stored plan, once some are added and others taken away."""
    path, change = f"/v1/plans/{segment(plan)}/labels", {"add": [*add], "remove": [*remove]}
    call = ApiCall("PATCH", path, body=change) if any(change.values()) else ApiCall("GET", path)
    return tuple((yield from asked(call))["labels"])


def strategies(plan: str, *, op: str | None = None, block: str | None = None) -> Shelf:
    """What a stored plan does with every op, in its order. op, block: globs of names of ops and of
    modules."""
    return Shelf(f"plans/{segment(plan)}/strategies", {"op": op, "block": block})


def communication(plan: str) -> Exchange[Communication]:
    """The communication of a stored plan, folded over repeats, longest first."""
    return Communication.from_dict((yield from got(f"/v1/plans/{segment(plan)}/communication")))


def costliest_ops(plan: str, *, limit: int | None = None) -> Exchange[CostliestOps]:
    """The groups of equal ops of a stored plan that take most time, longest first."""
    path = f"/v1/plans/{segment(plan)}/costliest-ops"
    return CostliestOps.from_dict((yield from got(path, limit=limit)))


def tensor_layouts(plan: str, tensor: str, *, stage: int | None = None) -> Exchange[TensorLayouts]:
    """The blocks of a tensor of a stored plan with the ranks that hold them, at rest and after each
    collective."""
    path = f"/v1/plans/{segment(plan)}/tensor-layouts"
    return TensorLayouts.from_dict((yield from got(path, tensor=tensor, stage=stage)))


def memory(plan: str, *, points: int = 0) -> Exchange[dict[str, Any]]:
    """Where the memory of a stored plan goes; with `points` over a simulated step too."""
    return (yield from got(f"/v1/plans/{segment(plan)}/memory", points=points or None))


def schedule(plan: str) -> Exchange[dict[str, Any]]:
    """The passes of every pipeline rank of a stored plan over a step, and the bubble."""
    return (yield from got(f"/v1/plans/{segment(plan)}/schedule"))


def layout(
    plan: str, *, opened: Iterable[str] = (), search: str | None = None
) -> Exchange[dict[str, Any]]:
    """A stored plan drawn: boxes and edges with positions. opened: ids of modules whose content is
    shown; search: a part of names of ops, of which `found` says what has to be open."""
    path = f"/v1/plans/{segment(plan)}/layout"
    return (yield from got(path, open=list(opened), search=search))


def explain(plan: str, op: str, *, seconds: float | None = None) -> Exchange[Explanation]:
    """Why the ops of a stored plan that a glob means have their strategies, and what every other
    one would do to the plan."""
    path = f"/v1/plans/{segment(plan)}/explain"
    return Explanation.from_dict((yield from got(path, op=op, seconds=seconds)))


def alternatives(plan: str) -> Exchange[list[dict[str, Any]]]:
    """What else could have been a stored plan, by time and memory, and why it was not."""
    return list((yield from got(f"/v1/plans/{segment(plan)}/alternatives"))["points"])


def overview(plan: str) -> Exchange[Overview]:
    """A stored plan without its ops."""
    found = yield from got(f"/v1/plans/{segment(plan)}/overview")
    return Overview.from_dict(found["overview"])


def compare(first: str, second: str) -> Exchange[Comparison]:
    """Two stored plans beside each other."""
    return Comparison.from_dict((yield from got("/v1/comparisons", plan=[first, second])))


def compare_table(
    plans: Sequence[str], *, baseline: str | None = None
) -> Exchange[ComparisonTable]:
    """Two to eight stored plans in a table. baseline: the first plan by default."""
    given = {"plan": list(plans)} | ({} if baseline is None else {"baseline": baseline})
    return ComparisonTable.from_dict((yield from got("/v1/comparisons/table", **given)))


def get_rank_strategy(
    plan: str, rank: int, known: RankStrategy | None = None
) -> Exchange[RankStrategy]:
    """What one rank of a stored plan does; `known`, where that is still it."""
    path = f"/v1/plans/{segment(plan)}/ranks/{rank}/strategy"
    response = yield ApiCall("GET", path, tag=None if known is None else known.id)
    if known is not None and response.status_code == 304:
        return known
    return RankStrategy.from_dict(value_of(response))


def certificate(plan: str) -> Exchange[Certificate]:
    """What executing a stored plan showed; NotFound where nobody asked for that."""
    return Certificate.from_dict((yield from got(f"/v1/plans/{segment(plan)}/certificate")))


def redistributions(plan: str) -> Exchange[list[dict[str, Any]]]:
    """The collectives of a stored plan, edge by edge."""
    found = yield from got(f"/v1/plans/{segment(plan)}/redistributions")
    return list(found["redistributions"])


def simulation(plan: str) -> Exchange[Simulation]:
    """One step of a stored plan, run task by task."""
    return Simulation.from_dict((yield from got(f"/v1/plans/{segment(plan)}/simulation")))


def timeline(plan: str) -> Exchange[dict[str, Any]]:
    """The same as a Chrome trace, which Perfetto opens."""
    return (yield from got(f"/v1/plans/{segment(plan)}/timeline"))


def transfer(
    from_plan: str,
    to_plan: str,
    *,
    state: MovedStates = "all",
    first: int = 0,
    cluster: str | None = None,
    device: int | None = None,
) -> Exchange[Transfer | DeviceTransfer]:
    """Move the parameters of one stored plan to another; with `device` what that one does.

    cluster: the id of a topology or the name of a preset that both lie in.
    """
    found = yield from got(
        "/v1/redistributions",
        from_plan=from_plan,
        to_plan=to_plan,
        state=state,
        first=first or None,
        cluster=cluster,
        device=device,
    )
    return Transfer.from_dict(found) if device is None else DeviceTransfer.from_dict(found)


def observe(observation: Observation) -> Exchange[dict[str, Any]]:
    """Report a measured step of a stored plan.

    `ratio`: measured over predicted; `calibration`: the id of the plan's, corrected by all
    observations of the stack.
    """
    path = f"/v1/plans/{segment(observation.plan)}/observations"
    return (yield from posted(path, observation.to_dict()))


def observations(plan: str) -> Shelf:
    """What was measured of a stored plan, the newest first."""
    return Shelf(f"plans/{segment(plan)}/observations")
