"""Whole plans of pipelines: executed, judged again, and held against every other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

from meshwright.schedules.kinds import schedule
from meshwright.schema import (
    Graph,
    Infeasible,
    InvalidInput,
    Pin,
    Pipeline,
    Plan,
    PlanError,
    Request,
    RequestError,
    ScheduleKind,
    Setup,
    Topology,
)
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.evaluation.step_time.closed_form import Lengths
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.pipeline_cost import priced
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_plans import StagePlans, StageWishes, plan_stages
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.verification.verify import execute_pipeline, verify_documents
from tests.solver.layered import layered
from tests.solver.requests import planned, refused, toy_request
from tests.solver.small_graphs import topology, toy_calibration

DEVICES = topology(4, 2)
CASES: tuple[tuple[ScheduleKind, int], ...] = (
    ("gpipe", 1),
    ("1f1b", 1),
    ("zb_h1", 1),
    ("interleaved_1f1b", 2),
    ("zb_v", 2),
)


def asked(
    graph: Graph, devices: Topology = DEVICES, microbatches: int | None = 4, **wanted: object
) -> Request:
    return toy_request(
        graph=graph,
        topology=devices,
        setup=Setup(microbatches=microbatches),
        pipeline=Pipeline.model_validate({"ranks": 2, **wanted}),
    )


def staged_of(request: Request, plan: Plan) -> Staged:
    return Staged.of_plan(plan, request.graph, request.topology, request.setup)


@pytest.mark.rotating
@pytest.mark.parametrize(("kind", "count"), CASES)
@pytest.mark.parametrize("shape", ["plain", "tied", "skip"])
def test_plans_of_every_schedule_are_right(kind: str, count: int, shape: str) -> None:
    graph = layered(tied=shape == "tied", skip=shape == "skip")
    request = asked(graph, schedule=kind, stages_per_rank=count)
    plan = planned(request)
    assert plan.schedule is not None
    assert (plan.schedule.kind, len(plan.stages)) == (kind, 2 * count)
    found = verify_documents(plan, graph, request.topology, request.setup)
    assert found.outcome == "verified", found.detail
    with_gradient = {tensor.name for tensor in graph.tensors if tensor.role == "parameter"}
    assert found.gradients >= len(with_gradient)


def test_the_judge_says_what_the_plan_says_and_stages_alike_cost_alike() -> None:
    request = asked(layered(6), microbatches=8, schedule="interleaved_1f1b", stages_per_rank=3)
    plan = planned(request)
    judged = priced(staged_of(request, plan), plan.stages)
    assert judged.stages == plan.stages
    assert judged.cost == plan.cost
    # what is not waiting is work: of the rank that works longest
    cost = plan.cost
    assert cost.step_ns == pytest.approx(
        cost.compute_ns + sum(cost.exposed_ns.values()) + cost.bubble_ns
    )


def test_a_stage_s_passes_add_up_to_its_step() -> None:
    request = asked(layered(tied=True), schedule="1f1b")
    plan = planned(request)
    staged = staged_of(request, plan)
    for number, stage in enumerate(plan.stages):
        passes = stage.passes
        assert passes is not None
        assert min(passes.forward_ns, passes.inputs_ns, passes.weights_ns, passes.step_ns) > 0
        assert stage.memory_bytes is not None
        assert stage.in_flight == staged.schedule.in_flight[number]
        saved = sum(tensor.saved_bytes for tensor in stage.tensors)
        assert stage.memory_bytes.activations == pytest.approx(saved * stage.in_flight)


def test_a_tied_parameter_s_gradient_is_reduced_between_its_stages() -> None:
    """64 x 32 float32 gradients go once each way over the link between 2 ranks of 1 device."""
    devices = topology(2)
    plain, tied = (
        planned(asked(layered(2, tied=own), devices, schedule="1f1b", cuts=("1.linear",)))
        for own in (False, True)
    )
    link = devices.levels[0].link
    ns = 32 * 64 * 4 / (link.bytes_per_s * toy_calibration().link_efficiency) * 1e9
    reduced = ns + 2 * link.latency_ns
    for stage, other in zip(tied.stages, plain.stages, strict=True):
        assert stage.passes is not None
        assert other.passes is not None
        assert stage.passes.step_ns == pytest.approx(other.passes.step_ns + reduced)


def test_memory_counts_what_is_in_flight() -> None:
    """With the cuts given, gpipe holds all 8 microbatches of both stages, 1f1b 2 and 1."""
    plans = {
        kind: planned(asked(layered(), microbatches=8, schedule=kind, cuts=("2.linear",)))
        for kind in ("gpipe", "1f1b")
    }
    for kind, held in (("gpipe", (8, 8)), ("1f1b", (2, 1))):
        assert tuple(stage.in_flight for stage in plans[kind].stages) == held
        for stage in plans[kind].stages:
            saved = sum(tensor.saved_bytes for tensor in stage.tensors)
            assert stage.memory_bytes is not None
            assert stage.memory_bytes.activations == saved * stage.in_flight


def test_a_pipeline_fits_where_one_stage_does_not() -> None:
    """Weights that no sharding of one device holds: two devices, one after the other, do."""
    graph = layered(8, width=256)
    whole = planned(toy_request(graph=graph, topology=topology(1), setup=Setup(microbatches=4)))
    needed = whole.cost.memory_bytes.total - whole.cost.memory_bytes.reserved
    small = topology(2, memory_bytes=int(needed * 0.75))
    alone = topology(1, memory_bytes=int(needed * 0.75))
    assert refused(toy_request(graph=graph, topology=alone)).constraint == "memory"
    plan = planned(asked(graph, small))
    assert plan.cost.memory_bytes.total <= small.device.memory_bytes
    assert verify_documents(plan, graph, small, Setup(microbatches=4)).outcome == "verified"
    tiny = topology(2, memory_bytes=int(needed * 0.2))
    assert refused(asked(graph, tiny)).constraint == "memory"


@pytest.mark.parametrize("kind", ["1f1b", "zb_h1"])
def test_the_answer_is_near_the_best_of_all_cuts_and_degrees(kind: ScheduleKind) -> None:
    """Everything enumerated: microbatches and every cut, each stage planned."""
    devices = topology(4, flops_per_s=1e12, latency_ns=200)
    graph = layered(2, batch=8)
    request = toy_request(graph=graph, topology=devices, pipeline=Pipeline(ranks=2, schedule=kind))
    found = planned(request)
    anatomy = Anatomy(graph)
    best = min(
        every.ns
        for own in configurations(request, anatomy)
        for cuts in combinations(range(1, len(anatomy.order)), own.ranks * own.stages_per_rank - 1)
        if (every := _planned_with(request, own, anatomy, cuts)) is not None
    )
    assert found.search.lower_bound_ns <= best <= found.cost.step_ns * (1 + 1e-9)
    assert found.cost.step_ns <= 1.03 * best


@pytest.mark.parametrize("kind", ["interleaved_1f1b", "zb_v"])
def test_with_two_stages_a_rank_too(kind: ScheduleKind) -> None:
    """Every three cuts, of which the stages of each rank are planned with half of its memory.

    Ops take longer than their launches: where launches are all the work, plans of a stage that are
    alike by the objective differ by 4 % of the step, in what hides.
    """
    devices = topology(4, flops_per_s=3e10, latency_ns=200)
    graph = layered(2, batch=8)
    wanted = Pipeline(ranks=2, schedule=kind, stages_per_rank=2)
    request = toy_request(
        graph=graph, topology=devices, setup=Setup(microbatches=4), pipeline=wanted
    )
    anatomy = Anatomy(graph)
    (own,) = configurations(request, anatomy)
    every = [
        _planned_with(request, own, anatomy, cuts)
        for cuts in combinations(range(1, len(anatomy.order)), 3)
    ]
    best = min(other.ns for other in every if other is not None)
    assert planned(request).cost.step_ns <= 1.03 * best


def _planned_with(
    request: Request, own: Configuration, anatomy: Anatomy, cuts: tuple[int, ...]
) -> StagePlans | None:
    order = schedule(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)
    staged = Staged(anatomy, request.topology, request.setup, toy_calibration(), order, cuts)
    wishes = StageWishes.of((1 / own.stages_per_rank,) * order.stages, order)
    found = plan_stages(request, own, staged, wishes, Deadline.after(None), 1e-3)
    return found if isinstance(found, StagePlans) else None


def test_no_further_stage_is_planned_where_it_is_not_worth_it() -> None:
    graph = layered(2, batch=8)
    anatomy, devices = Anatomy(graph), topology(4, flops_per_s=3e10, latency_ns=200)
    request = toy_request(
        graph=graph,
        topology=devices,
        setup=Setup(microbatches=4),
        pipeline=Pipeline(ranks=4, schedule="1f1b"),
    )
    (own,) = configurations(request, anatomy)
    order = schedule(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)
    staged = Staged(anatomy, devices, request.setup, toy_calibration(), order, (2, 4, 6))
    wishes = StageWishes.of((1.0,) * order.stages, order)
    asked_with: list[set[int]] = []

    def worth(planned: Mapping[int, Lengths]) -> bool:
        asked_with.append(set(planned))
        return len(asked_with) < 2

    found = plan_stages(request, own, staged, wishes, Deadline.after(None), 1e-3, worth=worth)
    assert isinstance(found, Infeasible)
    assert "longer than the best plan" in found.detail
    assert len(asked_with) == 2
    assert asked_with[0] < asked_with[1] < set(range(4))


def test_without_a_pipeline_where_that_is_faster() -> None:
    fast = topology(4, 2, bytes_per_s=1e12, latency_ns=0)
    plan = planned(asked(layered(), fast, None, ranks=None))
    assert plan.schedule is None
    assert plan.search.considered
    assert all(own.cost_ns is None or own.cost_ns > plan.cost.step_ns
               for own in plan.search.considered)  # fmt: skip


def test_the_user_s_cuts_and_pins_are_kept() -> None:
    request = asked(layered(), cuts=("1.act",), schedule="1f1b")
    pin = Pin(op="3.linear", strategy={"n": ("node",)})
    plan = planned(request.model_copy(update={"pins": (pin,)}))
    assert [op.op for op in plan.stages[1].ops][:2] == ["receive 0.add:out", "receive 1.linear:out"]
    strategy = next(op.strategy for op in plan.stages[1].ops if op.op == "3.linear")
    assert strategy == {"n": ("node",)}


def test_a_glob_is_of_ops_and_not_of_what_a_stage_receives() -> None:
    request = asked(layered(), cuts=("1.act",), schedule="1f1b")
    pin = Pin(op="*linear*", strategy={"n": ()})
    plan = planned(request.model_copy(update={"pins": (pin,)}))
    ops = {op.op: op.strategy for stage in plan.stages for op in stage.ops}
    assert any(name.startswith("receive") and "linear" in name for name in ops)
    pinned = [name for name in ops if "linear" in name and not name.startswith("receive")]
    assert all("n" not in ops[name] for name in pinned)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"ranks": 3}, "3 pipeline ranks cannot be cut from 4 node × 2 gpu"),
        ({"cuts": ("2.lin",)}, "no stage can begin with '2.lin'"),
        ({"cuts": ("embed",)}, "the cuts are not in order"),
    ],
)
def test_what_cannot_be_is_said(wanted: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        planned(asked(layered(), **wanted))


def test_contradictions_are_refused_where_they_are_said() -> None:
    with pytest.raises(RequestError, match="3 stages need 2 cuts, got 1"):
        Pipeline(ranks=3, cuts=("a",))
    with pytest.raises(RequestError, match="a pipeline of one rank has no schedule"):
        Pipeline(ranks=1, schedule="1f1b")
    inference = asked(layered()).model_copy(update={"setup": Setup(phase="inference")})
    with pytest.raises(InvalidInput, match="for training only"):
        planned(inference)


def test_a_damaged_plan_is_refused() -> None:
    request = asked(layered(), schedule="1f1b")
    plan = planned(request)
    documents = request.graph, request.topology, request.setup
    first, second = plan.stages
    swapped = plan.model_copy(update={"stages": (second, first)})
    with pytest.raises(PlanError, match="not in the order"):
        verify_documents(swapped, *documents)
    lying = plan.model_copy(
        update={"cost": plan.cost.model_copy(update={"step_ns": plan.cost.step_ns / 2})}
    )
    with pytest.raises(PlanError, match="evaluate says"):
        verify_documents(lying, *documents)
    gone = second.model_copy(update={"ops": second.ops[1:]})
    with pytest.raises(PlanError, match="lacks 'receive"):
        verify_documents(plan.model_copy(update={"stages": (first, gone)}), *documents)


def test_a_step_left_out_is_caught_by_execution() -> None:
    """Every redistribution of every stage, dropped one at a time, makes the plan fail."""
    request = asked(layered(2, width=128), topology(2, 4, bytes_per_s=1e12), schedule="1f1b")
    plan = planned(request)
    dropped = 0
    for number, stage in enumerate(plan.stages):
        for place, moved in enumerate(stage.redistributions):
            if not (moved.forward or moved.backward or moved.per_step):
                continue
            rest = (*stage.redistributions[:place], *stage.redistributions[place + 1 :])
            hurt = stage.model_copy(update={"redistributions": rest})
            stages = [*plan.stages[:number], hurt, *plan.stages[number + 1 :]]
            damaged = plan.model_copy(update={"stages": tuple(stages)})
            found = execute_pipeline(damaged, request.graph, request.topology, request.setup)
            assert found.outcome == "failed", moved
            assert found.detail.startswith(f"stage {number}: ")
            dropped += 1
    assert dropped >= 4


@pytest.mark.parametrize("cut", ["logits", "1.linear", "1.add"])
def test_a_stage_pays_for_the_gradient_of_what_it_sends(cut: str) -> None:
    """Over slow links a stage does not leave what it sends whole on every device: no plan with its
    ops pinned data parallel, which shares the batch out, is faster."""
    devices = topology(2, 4, bytes_per_s=1e8, latency_ns=200, flops_per_s=1e12)
    graph = layered(2, batch=64)
    request = asked(graph, devices, 2, schedule="1f1b", cuts=(cut,))
    free = planned(request)
    pinned = planned(request.model_copy(update={"pins": (Pin(op="0.*", data_parallel=True),)}))
    assert free.cost.step_ns <= pinned.cost.step_ns * 1.01
    returned = {
        own.payload_bytes for op in free.stages[0].ops for own in op.own_steps
        if own.what == "return"
    }  # fmt: skip
    assert returned
    assert not any(own.what == "return" for op in free.stages[1].ops for own in op.own_steps)


def test_an_output_beside_the_loss_gets_no_gradient() -> None:
    """A probe's own weights are trained by nobody, in the whole graph as in its stage."""
    document = layered().to_dict()
    document["tensors"] += [
        {"name": "wp", "shape": [64, 64], "dtype": "float32", "role": "parameter"},
        {"name": "probe:out", "shape": ["batch", 4, 64], "dtype": "float32"},
    ]
    probe = {"name": "probe", "kind": "linear", "inputs": ["0.add:out", "wp"],
             "outputs": ["probe:out"]}  # fmt: skip
    at = next(k for k, op in enumerate(document["ops"]) if op["name"] == "1.linear")
    document["ops"].insert(at, probe)
    document["outputs"].append("probe:out")
    graph = Graph.from_dict(document)
    request = asked(graph, schedule="1f1b", cuts=("2.linear",))
    plan = planned(request)
    own = next(p for p in plan.stages[0].parameters if p.tensor == "wp")
    assert own.gradient is None
    found = verify_documents(plan, graph, request.topology, request.setup)
    assert found.outcome == "verified", found.detail


def test_what_a_stage_receives_comes_in_parts_and_not_whole_to_every_device() -> None:
    """4 samples a microbatch over 2 devices: 2 x 4 x 64 float32 to each, forward and backward."""
    request = asked(layered(batch=16), topology(2, 2), schedule="1f1b", cuts=("2.linear",))
    plan = planned(request)
    received, stage = plan.stages[1].ops[0], plan.stages[1]
    assert received.kind == "receive"
    assert list(received.strategy.values()) == [("gpu",)]
    assert received.own_steps[0].payload_bytes == 2 * 4 * 64 * 4
    assert [own.bytes for own in stage.receives] == [4 * 4 * 64 * 4]


def test_a_plan_that_says_other_memory_or_passes_of_itself_is_refused() -> None:
    request = asked(layered(), schedule="zb_h1")
    plan = planned(request)
    memory = plan.cost.memory_bytes.model_copy(update={"activations": 1})
    less = plan.model_copy(update={"cost": plan.cost.model_copy(update={"memory_bytes": memory})})
    with pytest.raises(PlanError, match=r"says cost\.memory_bytes\.activations 1, evaluate"):
        verify_documents(less, request.graph, request.topology, request.setup)
    first = plan.stages[0]
    assert first.passes is not None
    passes = first.passes.model_copy(update={"weights_ns": first.passes.weights_ns / 2})
    stages = (first.model_copy(update={"passes": passes}), *plan.stages[1:])
    with pytest.raises(PlanError, match=r"says stage 0 passes\.weights_ns"):
        verify_documents(
            plan.model_copy(update={"stages": stages}),
            request.graph,
            request.topology,
            request.setup,
        )


def test_what_is_on_the_front_is_smaller_than_all_that_is_faster() -> None:
    """More microbatches take longer here, and save less each."""
    devices = topology(4, flops_per_s=1e12, latency_ns=2000)
    request = asked(layered(4, batch=8), devices, None, schedule="zb_h1")
    plan = planned(request)
    others = plan.search.considered
    assert others
    times = [own.cost_ns or own.estimated_ns for own in others]
    assert times == sorted(times)
    least = plan.cost.memory_bytes.total
    for own in others:
        assert own.memory_bytes is not None
        assert own.on_front == (own.memory_bytes < least)
        least = min(least, own.memory_bytes)
    assert any(own.on_front for own in others)
