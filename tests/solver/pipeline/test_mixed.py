"""Pipelines over several kinds of devices: by hand, against all others, and executed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from meshwright.schedules.kinds import schedule
from meshwright.schema import (
    Constraints,
    Degrees,
    Graph,
    InvalidInput,
    Link,
    Pipeline,
    Plan,
    PlanError,
    Request,
    Setup,
    Topology,
    TopologyError,
)
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.pipeline_cost import priced
from meshwright_solver.pipeline.rank_placement import (
    RankShare,
    link_between,
    parts_of,
    placements,
    sends_ns,
)
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_plans import StagePlans, StageWishes, plan_stages
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.planning.planner import check
from meshwright_solver.simulation.step import step_of
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.mixed import beside, kind
from tests.solver.requests import planned, refused, toy_request
from tests.solver.small_graphs import problem, topology, toy_calibration

SLOW = kind("slow", 2, flops_per_s=1e12, latency_ns=200)
FAST = kind("fast", 2, flops_per_s=2e12, latency_ns=200)
MIXED = beside(SLOW, FAST)
FREE = Link(kind="wire", bytes_per_s=1e18, latency_ns=0)


def asked(
    graph: Graph, devices: Topology = MIXED, microbatches: int | None = None, **wanted: object
) -> Request:
    return toy_request(
        graph=graph,
        topology=devices,
        setup=Setup(microbatches=microbatches),
        pipeline=Pipeline.model_validate({"ranks": None, **wanted}),
    )


def linears(plan: Plan, stage: int) -> int:
    return sum(op.kind == "linear" for op in plan.stages[stage].ops)


@pytest.mark.parametrize("slow_first", [True, False])
def test_a_device_twice_as_fast_has_twice_the_layers(*, slow_first: bool) -> None:
    """3 layers and a classifier of a sixteenth of one: 1 on the slow device, 2 on the fast one
    take as long, so that 8 microbatches and a bubble of one take 9 (F + B)."""
    graph = layered(3, batch=512, width=512)
    kinds = [
        kind(name, 1, flops_per_s=flops, memory_bytes_per_s=1e18, latency_ns=0)
        for name, flops in (("slow", 1e12), ("fast", 2e12))
    ]
    devices = beside(*(kinds if slow_first else reversed(kinds)), uplink=FREE)
    plan = planned(asked(graph, devices, 8, ranks=2, schedule="1f1b"))
    names = [devices.groups[stage.ranks_from].device.name for stage in plan.stages]
    counts = {name: linears(plan, stage) for stage, name in enumerate(names)}
    # the classifier, which is small, is behind the last layer
    counts[names[-1]] -= 1
    assert counts == {"slow": 1, "fast": 2}
    busy = []
    for stage in plan.stages:
        assert stage.passes is not None
        own = stage.passes
        busy.append(own.forward_ns + own.inputs_ns + own.weights_ns)
    assert busy[0] == pytest.approx(busy[1], rel=0.1)
    assert plan.cost.step_ns == pytest.approx(9 * max(busy), rel=0.05)


def test_the_answer_is_near_the_best_of_all_cuts_and_placements() -> None:
    """Everything enumerated: ranks on groups, which group is first, and every cut."""
    request = asked(layered(1, batch=8), microbatches=4, schedule="1f1b")
    found = planned(request)
    anatomy = Anatomy(request.graph)
    every = [
        other.ns
        for own in configurations(request, anatomy)
        if own.ranks <= 3
        for cuts in combinations(range(1, len(anatomy.order)), own.ranks - 1)
        if (other := _planned_with(request, own, anatomy, cuts)) is not None
    ]
    alone = [
        planned(request.model_copy(update={"topology": group, "pipeline": NO_PIPELINE}))
        for group in request.topology.groups
    ]
    best = min([*every, *(plan.cost.step_ns for plan in alone)])
    assert found.cost.step_ns <= 1.03 * best


def _planned_with(
    request: Request, own: Configuration, anatomy: Anatomy, cuts: tuple[int, ...]
) -> StagePlans | None:
    order = schedule(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)
    staged = Staged(
        anatomy, request.topology, request.setup, toy_calibration(), order, cuts, own.placement
    )
    wishes = StageWishes.of((1 / own.stages_per_rank,) * order.stages, order)
    found = plan_stages(request, own, staged, wishes, Deadline.after(None), 1e-3)
    return found if isinstance(found, StagePlans) else None


CASES = (("1f1b", 1), ("gpipe", 1), ("zb_h1", 1), ("interleaved_1f1b", 2), ("zb_v", 2))


@pytest.mark.parametrize(("schedule_", "count"), CASES)
@pytest.mark.parametrize("shape", ["plain", "tied", "skip"])
def test_plans_of_every_schedule_are_right(schedule_: str, count: int, shape: str) -> None:
    """Ranks of 1 and of 4 devices, or of 2: executed, judged again, and simulated."""
    graph = layered(tied=shape == "tied", skip=shape == "skip")
    devices = beside(kind("old", 2, flops_per_s=1e12), kind("new", 2, 2, flops_per_s=1e12))
    request = asked(graph, devices, 4, ranks=3, schedule=schedule_, stages_per_rank=count)
    plan = planned(request)
    assert {stage.mesh.device_count for stage in plan.stages} in ({1, 4}, {2})
    found = verify_documents(plan, graph, devices, request.setup)
    assert found.outcome == "verified", found.detail
    staged = Staged.of_plan(plan, graph, devices, request.setup)
    judged = priced(staged, plan.stages)
    assert (judged.stages, judged.cost) == (plan.stages, plan.cost)
    step = step_of(plan, graph, devices, request.setup)
    for rank, part in enumerate(staged.parts):
        assert step.levels[rank] == tuple(level.name for level in part.topology.levels)


@pytest.mark.parametrize(("schedule_", "ranks"), [("1f1b", 2), ("zb_h1", 3)])
def test_a_step_of_several_kinds_is_simulated_as_it_is_priced(schedule_: str, ranks: int) -> None:
    graph = layered(3, batch=256, width=512)
    request = asked(graph, microbatches=8, ranks=ranks, schedule=schedule_)
    plan = planned(request)
    step = step_of(plan, graph, MIXED, request.setup)
    assert step.ns == pytest.approx(plan.cost.step_ns, rel=0.03)


@pytest.mark.parametrize("schedule_", ["1f1b", "interleaved_1f1b"])
def test_the_order_in_which_groups_are_written_changes_no_cost(schedule_: str) -> None:
    graph = layered(3, batch=16)
    plans = [
        planned(asked(graph, beside(*groups), 8, schedule=schedule_))
        for groups in ((SLOW, FAST), (FAST, SLOW))
    ]
    assert plans[0].cost.step_ns == pytest.approx(plans[1].cost.step_ns, rel=1e-3)


@pytest.mark.parametrize("schedule_", ["1f1b", "zb_v"])
def test_groups_of_equal_devices_are_one_cluster(schedule_: str) -> None:
    """2 nodes of 2 are planned as 1 node of 2 beside another, over the same network."""
    graph = layered(4, batch=64, width=256)
    nodes = topology(2, 2, flops_per_s=1e12)
    node = nodes.model_copy(update={"levels": nodes.levels[1:]})
    groups = beside(node, node, uplink=nodes.levels[0].link)
    request = asked(graph, nodes, 8, ranks=2, schedule=schedule_)
    whole = planned(request)
    both = planned(request.model_copy(update={"topology": groups}))
    assert both.cost.step_ns == pytest.approx(whole.cost.step_ns, rel=1e-6)
    # and the judge says the same of one plan on both
    staged = Staged.of_plan(whole, graph, groups, request.setup)
    assert priced(staged, whole.stages).cost == whole.cost


def test_one_stage_has_the_group_on_which_it_is_fastest() -> None:
    request = asked(layered(4, batch=16), ranks=1)
    plan = planned(request)
    fast = planned(request.model_copy(update={"topology": FAST}))
    assert plan.cost == fast.cost
    assert plan.stages[0].ranks_from == 2
    assert plan.topology == MIXED.id
    assert "2 other devices are idle" in plan.notes[0]
    found = verify_documents(plan, request.graph, MIXED, request.setup)
    assert found.outcome == "verified", found.detail
    assert step_of(plan, request.graph, MIXED, request.setup).ns == pytest.approx(
        plan.cost.step_ns, rel=0.1
    )
    elsewhere = plan.stages[0].model_copy(update={"ranks_from": 1})
    with pytest.raises(PlanError, match="begins at device 1, where no group"):
        verify_documents(
            plan.model_copy(update={"stages": (elsewhere,)}), request.graph, MIXED, request.setup
        )


def test_a_mixed_pipeline_is_no_worse_than_any_group_alone() -> None:
    graph = layered(2, batch=64, width=256)
    both = planned(asked(graph, microbatches=8)).cost.step_ns
    for group in (SLOW, FAST):
        assert both <= planned(asked(graph, group, 8)).cost.step_ns * 1.001


def test_what_fits_no_group_alone_fits_all_together() -> None:
    graph = layered(8, width=256)
    needed = planned(asked(graph, topology(1), 4, ranks=1)).cost.memory_bytes
    bytes_ = needed.total - needed.reserved
    groups = [
        topology(1, memory_bytes=int(bytes_ * share), flops_per_s=flops)
        for share, flops in ((0.5, 1e12), (0.8, 2e12))
    ]
    for group in groups:
        assert refused(asked(graph, group, 4, ranks=1)).constraint == "memory"
    assert refused(asked(graph, beside(*groups), 4, ranks=1)).constraint == "memory"
    plan = planned(asked(graph, beside(*groups), 4))
    for stage in plan.stages:
        assert stage.memory_bytes is not None
        assert stage.memory_bytes.total <= stage.memory_bytes.capacity
    assert {stage.memory_bytes.capacity for stage in plan.stages if stage.memory_bytes} == {
        group.device.memory_bytes for group in groups
    }


def test_placements_are_all_there_are() -> None:
    """Groups of 4 and 2 nodes of one device: 1, 2, 4 ranks, and 1, 2; alone from 2 on."""
    devices = beside(topology(4), topology(2))
    found = list(placements(devices, 64))
    assert len(found) == len(set(found)) == 2 + 1 + 3 * 2 * 2
    assert (RankShare(0, 4), RankShare(1, 2)) in found
    assert (RankShare(1, 2), RankShare(0, 4)) in found
    assert max(sum(own.ranks for own in placed) for placed in placements(devices, 3)) == 3


def test_a_cut_between_groups_sends_by_the_uplinks_of_the_slower_side() -> None:
    """1e6 bytes from 2 devices with 1e9 bytes/s each to 4 with 4e8: 1.6e9 bytes/s."""
    slow = Link(kind="wire", bytes_per_s=4e8, latency_ns=700)
    fast = Link(kind="wire", bytes_per_s=1e9, latency_ns=500)
    devices = beside(topology(2, 2), topology(4), uplink=slow)
    devices = devices.model_copy(update={"uplink": fast})
    parts = parts_of(devices, (RankShare(0, 2), RankShare(1, 1)))
    assert [(own.first, own.topology.device_count) for own in parts] == [(0, 2), (2, 2), (4, 4)]
    found = sends_ns(parts, (0, 1, 2, 2), np.array([0.0, 1e6]), 0.5)
    inside = devices.levels[0].link
    assert found[1, 1] == pytest.approx(
        inside.latency_ns + 1e6 / (2 * inside.device_bytes_per_s * 0.5) * 1e9
    )
    assert found[2, 1] == pytest.approx(700 + 1e6 / (1.6e9 * 0.5) * 1e9)
    assert found[3].tolist() == [0.0, 0.0]
    assert link_between(parts[0], parts[1]) == inside
    assert link_between(parts[1], parts[2]) == slow


def test_what_cannot_be_is_said() -> None:
    graph = layered()
    with pytest.raises(InvalidInput, match=r"5 pipeline ranks cannot be .* Use 2, 3, 4"):
        check(asked(graph, ranks=5))
    stated = asked(graph, ranks=2).model_copy(update={"degrees": Degrees(tp=1)})
    with pytest.raises(InvalidInput, match="degrees are stated for devices of one kind"):
        check(stated)
    kept = asked(graph, ranks=2).model_copy(
        update={"constraints": Constraints(offload="optimizer")}
    )
    with pytest.raises(InvalidInput, match="offload to hosts is not planned"):
        check(kept)
    with pytest.raises(TopologyError, match="mixed has 2 kinds of devices"):
        problem(graph, MIXED)


def test_a_damaged_plan_is_refused() -> None:
    request = asked(layered(), microbatches=4, ranks=3, schedule="1f1b")
    plan = planned(request)
    for first in (1, 3, 9):
        moved = plan.stages[0].model_copy(update={"ranks_from": first})
        damaged = plan.model_copy(update={"stages": (moved, *plan.stages[1:])})
        with pytest.raises(PlanError):
            verify_documents(damaged, request.graph, MIXED, request.setup)
