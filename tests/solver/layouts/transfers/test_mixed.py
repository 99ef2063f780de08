"""From one plan to another on a cluster of several kinds of devices."""

from __future__ import annotations

import pytest

from meshwright.schema import Link, Pipeline, Plan, PlanError, Setup, Topology
from meshwright.transfers.pieces import device_transfer
from meshwright_solver.layouts.transfers.plans import PlanDocuments, transfer_plans
from tests.solver.layered import layered
from tests.solver.mixed import beside, kind
from tests.solver.requests import planned, toy_request

SLOW = kind("slow", 2, flops_per_s=1e12, latency_ns=200)
FAST = kind("fast", 2, flops_per_s=2e12, latency_ns=200)
MIXED = beside(SLOW, FAST)


def documents(ranks: int | None, cluster: Topology = MIXED) -> PlanDocuments:
    """In so many pipeline ranks; None: in one stage, on the group on which that is fastest."""
    graph, setup = layered(8), Setup(microbatches=4)
    pipeline = Pipeline(ranks=ranks or 1)
    plan = planned(toy_request(graph=graph, topology=cluster, setup=setup, pipeline=pipeline))
    return PlanDocuments(plan, graph, cluster, setup)


def held_bytes(plan: Plan, device: int) -> int:
    return sum(
        own.value_bytes + own.optimizer_bytes
        for stage in plan.stages
        if stage.ranks_from <= device < stage.ranks_from + stage.mesh.device_count
        for own in stage.parameters
    )


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (None, 2), (2, None), (2, 2)])
def test_every_device_ends_with_what_the_plan_says(before: int | None, after: int | None) -> None:
    source, target = documents(before), documents(after)
    made = transfer_plans(source, target)
    assert made.moved_bytes == made.needed_bytes - made.kept_bytes
    assert (made.moved_bytes == 0) == (before == after)
    for device in range(4):
        wanted = held_bytes(target.plan, device)
        if not wanted and not held_bytes(source.plan, device):
            continue
        does = device_transfer(made, device)
        found = [own.bytes * len(own.tensors) for own in (*does.receives, *does.keeps)]
        assert sum(found) == wanted


def test_slow_uplinks_make_it_slow() -> None:
    slow = Link(kind="ethernet", bytes_per_s=1e6, latency_ns=1000)
    times = [
        transfer_plans(documents(None, cluster), documents(4, cluster)).ns
        for cluster in (MIXED, beside(SLOW, FAST, uplink=slow))
    ]
    assert times[1] > 2 * times[0]


def test_other_clusters_and_other_devices_are_refused() -> None:
    source = documents(2)
    other = documents(2, beside(FAST, SLOW))
    with pytest.raises(PlanError, match="Use two plans for this topology"):
        transfer_plans(source, other)
    with pytest.raises(PlanError, match="both from its first device"):
        transfer_plans(source, source, first=2)
