"""Whole parameters dealt out: balanced, cheaper or smaller where nothing divides, executed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from meshwright.schema import (
    Budget,
    Constraints,
    OptimizerParallel,
    Pipeline,
    Plan,
    PlanError,
    Request,
    Setup,
)
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.evaluation.evaluate import cost_of_all, evaluate
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.values import find_values
from meshwright_solver.simulation.step import step_of
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.optimizer_sharding import OptimizerSharding
from meshwright_solver.strategies.parameter_owners import Dealt, deal, extra_bytes
from meshwright_solver.verification.verify import verify, verify_documents
from tests.solver.planning.test_enumeration import all_assignments
from tests.solver.requests import planned, problem_of, toy_request
from tests.solver.small_graphs import GraphMaker, models, topology

WHOLE = OptimizerParallel(whole_parameters=True, threshold_kb=0)
DEALING = Constraints(optimizer_parallel=WHOLE)


def test_the_largest_goes_first_to_who_has_least() -> None:
    items = [Dealt((0,), size, (2,)) for size in (3, 5, 4, 2)]
    found = deal(items)
    # 5 | 4, then 3 beside 4, then 2 beside 5: seven each
    assert found.owners == ((1,), (0,), (1,), (0,))
    assert found.extra_bytes == 0
    assert deal([Dealt((0,), 9, (3,))]).extra_bytes == 6  # one holds all, the mean is a third
    assert deal([]).extra_bytes == 0


def test_groups_over_some_axes_lie_on_every_device_along_the_others() -> None:
    items = [Dealt((0,), 6, (2, 2)), Dealt((0, 1), 4, (2, 2)), Dealt((0, 1), 4, (2, 2))]
    found = deal(items)
    # six on both devices of row 0; the two of four on the two of row 1
    assert found.owners[0] == (0,)
    assert {found.owners[1], found.owners[2]} == {(1, 0), (1, 1)}
    assert found.extra_bytes == 6 - (6 / 2 + 4 / 4 + 4 / 4)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(20))
def test_no_dealing_is_better_by_more_than_a_quarter(seed: int) -> None:
    generator = np.random.default_rng(seed)
    ways = int(generator.integers(2, 4))
    sizes = generator.integers(1, 50, size=int(generator.integers(1, 7))).tolist()
    items = [Dealt((0,), size, (ways,)) for size in sizes]
    fullest = deal(items).extra_bytes + sum(sizes) / ways
    best = min(
        max(sum(s for s, at in zip(sizes, chosen, strict=True) if at == rank)
            for rank in range(ways))
        for chosen in itertools.product(range(ways), repeat=len(sizes))
    )  # fmt: skip
    assert best - 1 <= fullest <= best * (4 / 3 - 1 / (3 * ways)) + 1
    shuffled = [items[k] for k in generator.permutation(len(items))]
    assert extra_bytes([(own, 1) for own in shuffled]) == deal(items).extra_bytes


# --- states --------------------------------------------------------------------------------------


def odd() -> GraphMaker:
    maker = GraphMaker(batch=12)
    x = maker.input("x", "batch", 35)
    x = maker.op("linear", [x, maker.parameter("w", 49, 35)], ["batch", 49], "first")
    maker.op("linear", [x, maker.parameter("v", 35, 49)], ["batch", 35], "second")
    return maker


def test_only_what_cannot_be_cut_any_more_is_dealt_out() -> None:
    at_rest = OptimizerSharding(WHOLE)
    found = models(odd().graph("second:out"), [3, 7], Setup(microbatches=2))
    found.at_rest = at_rest
    model = found.parameter(found.values.value_of["w"])
    n = model.space.slots
    dealt = model.states[model.dealt_axes(model.states).any(axis=1)] % model.space.base
    # 49 divides by 7 and not by 3: whole along the axis of three, cut along the other
    assert {tuple(row) for row in dealt.tolist()} == {
        (n, code) for code in (*range(n), n + 1, n + 2)
    }
    even = models(odd().graph("second:out"), [7], Setup(microbatches=2))
    even.at_rest = at_rest
    whole = even.parameter(even.values.value_of["w"])
    assert not whole.dealt_axes(whole.states).any()


def test_the_update_and_its_state_are_a_share_of_the_group() -> None:
    found = models(odd().graph("second:out"), [3])
    found.at_rest = OptimizerSharding(WHOLE.model_copy(update={"level": 1}))
    model = found.parameter(found.values.value_of["w"])
    n = model.space.slots
    whole, dealt = np.array([[n]]), model.states[model.dealt_axes(model.states).any(axis=1)]
    assert len(dealt) == 1
    for own, other in zip(model.memory_bytes(whole), model.memory_bytes(dealt), strict=True):
        assert own[0] in (other[0], 3 * other[0])
    assert model.memory_bytes(dealt)[2][0] == 49 * 35 * 8 / 3
    assert model.update_ns(dealt)[0] == pytest.approx(model.update_ns(whole)[0] / 3)
    # summed on one device, and sent to the two others: the wire of 1e10 bytes/s at 0.8
    sent_ns = 2 * 1000 + 49 * 35 * 4 / (1e10 * 0.8) * 1e9
    needed = np.array([[n + 2]])
    shares = 49 * 35 * 4 / (25 * 2**20)  # of a bucket's latency; small values pay all
    _, once = model.reduce_ns(dealt, needed)
    assert once[0, 0] == pytest.approx(sent_ns - 2 * 1000 * (1 - shares))
    assert model.spread_ns(dealt)[0] == pytest.approx(sent_ns)


# --- brute force ---------------------------------------------------------------------------------


def test_the_plan_is_the_best_of_all_assignments_under_every_memory_limit() -> None:
    def request(memory_bytes: int) -> Request:
        return toy_request(
            graph=odd().graph("second:out"),
            topology=topology(3, memory_bytes=memory_bytes, latency_ns=100),
            setup=Setup(microbatches=1, memory_reserve=0.0),
            budget=Budget(max_axes=1),
            constraints=DEALING,
        )

    roomy = request(1 << 40)
    everything = []
    built = problem_of(roomy)
    for mesh in meshes(roomy.topology, 1):
        own = Models(built, find_values(built), mesh, at_rest=OptimizerSharding(WHOLE))
        for assignment in all_assignments(own):
            try:
                cost = cost_of_all(own, assignment)
            except PlanError:  # layouts that do not meet
                continue
            everything.append((cost.objective_ns, cost.memory_bytes.total))
    best = min(everything)[0]
    assert planned(roomy).cost.objective_ns == pytest.approx(best, rel=1e-9)
    memories = sorted({memory for _, memory in everything})
    used = set()
    for limit in (memories[len(memories) // 3], memories[2 * len(memories) // 3]):
        best = min(cost for cost, memory in everything if memory <= limit)
        found = plan(request(limit)).plan
        assert found is not None
        assert best * (1 - 1e-9) <= found.cost.objective_ns <= best * (1 + 2 * TOLERANCE)
        assert found.cost.memory_bytes.total <= limit
        used.add(any(own.owner for own in found.stages[0].parameters))
    assert True in used


# --- plans ---------------------------------------------------------------------------------------


def layers(count: int = 4, **fields: object) -> Request:
    """Odd widths on three nodes of two devices, more than all states whole have room for."""
    maker = GraphMaker(batch=1200)
    x = maker.input("x", "batch", 98)
    for k in range(count):
        up = maker.op("linear", [x, maker.parameter(f"{k}.up", 196, 98)], ["batch", 196], f"{k} up")
        act = maker.op("gelu", [up], ["batch", 196], f"{k} act")
        down = maker.parameter(f"{k}.down", 98, 196)
        x = maker.op("linear", [act, down], ["batch", 98], f"{k} down")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [x, label], [], "loss")
    return toy_request(
        graph=maker.graph(loss, loss=loss),
        topology=topology(3, 2),
        setup=Setup(microbatches=2, memory_reserve=0.0),
        constraints=Constraints(optimizer_parallel=WHOLE.model_copy(update={"level": 1})),
        **fields,
    )


def fullest(found: Plan) -> int:
    """Bytes of optimizer state on the device that has most, from what the plan says alone."""
    (stage,) = found.stages

    def held() -> Iterator[int]:
        for rank in range(stage.mesh.device_count):
            at = stage.mesh.coordinates(rank)
            yield sum(
                (
                    (own.dealt_bytes if all(at[a] == k for a, k in own.owner.items()) else 0)
                    if own.owner
                    else own.optimizer_bytes
                )
                for own in stage.parameters
            )

    return max(held())


def by_level(level: int | None, **more: object) -> Plan:
    wish = WHOLE.model_copy(update={"level": level, **more})
    return planned(
        layers().model_copy(update={"constraints": Constraints(optimizer_parallel=wish)})
    )


def test_gradients_lie_with_the_optimizer_state_where_the_level_says_so() -> None:
    one, two = by_level(1), by_level(2)
    for found, owned in ((one, ("optimizer",)), (two, ("gradient", "optimizer"))):
        kept = {own.owned for own in found.stages[0].parameters if own.owner}
        assert kept == {owned}
    assert two.cost.memory_bytes.gradients < one.cost.memory_bytes.gradients / 2
    assert {own.owned for own in by_level(1, gradient_accumulation_shard=True)
            .stages[0].parameters if own.owner} == {("gradient", "optimizer")}  # fmt: skip
    assert not any(own.owner for own in by_level(0).stages[0].parameters)
    # the fullest device has what the judge says, gradients and all
    (stage,) = two.stages
    assert all(own.owner for own in stage.parameters if own.gradient_bytes)
    memory = two.cost.memory_bytes
    own_bytes = sum(own.dealt_bytes for own in stage.parameters)
    mean = sum(own.gradient_bytes + own.optimizer_bytes for own in stage.parameters)
    assert memory.gradients + memory.optimizer >= mean
    assert memory.gradients + memory.optimizer < own_bytes
    request = layers()
    sums = [step.kind for own in stage.redistributions for step in own.backward]
    assert "reduce" in sums
    certificate = verify_documents(two, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"
    simulated = step_of(two, request.graph, request.topology, request.setup)
    assert simulated.ns == pytest.approx(two.cost.step_ns, rel=0.03)
    assert simulated.static_bytes(0) == pytest.approx(
        memory.parameters + memory.gradients + memory.optimizer, abs=2 * len(stage.parameters)
    )


def test_plans_say_who_owns_what_are_judged_alike_and_right() -> None:
    request = layers()
    found = planned(request)
    owned = [own for own in found.stages[0].parameters if own.owner]
    assert owned
    assert len({tuple(own.owner.values()) for own in owned}) == 3
    assert fullest(found) == pytest.approx(found.cost.memory_bytes.optimizer, abs=len(owned))
    whole = planned(layers().model_copy(
        update={"constraints": Constraints(optimizer_parallel=OptimizerParallel(level=1))}
    ))  # fmt: skip
    assert found.cost.memory_bytes.optimizer < whole.cost.memory_bytes.optimizer / 2
    assert evaluate(problem_of(request), found) == found.cost
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"
    simulated = step_of(found, request.graph, request.topology, request.setup)
    assert simulated.ns == pytest.approx(found.cost.step_ns, rel=0.03)
    memory = found.cost.memory_bytes
    resting = memory.parameters + memory.gradients + memory.optimizer
    assert simulated.static_bytes(0) == pytest.approx(resting, abs=len(owned))


@pytest.mark.parametrize("solver", ["exact", "recursive_programming", "semi_auto"])
def test_every_search_may_deal(solver: str) -> None:
    found = planned(layers(2).model_copy(update={"solver": solver}))
    assert any(own.owner for own in found.stages[0].parameters)


def test_stages_of_a_pipeline_deal_too() -> None:
    request = layers(pipeline=Pipeline(ranks=2)).model_copy(update={"topology": topology(2, 3)})
    found = plan(request).plan
    assert found is not None
    assert all(any(own.owner for own in stage.parameters) for stage in found.stages)
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"


def changed(found: Plan, **update: object) -> Plan:
    (stage,) = found.stages
    return found.model_copy(update={"stages": (stage.model_copy(update=update),)})


def test_another_owner_than_the_dealing_has_is_no_right_plan() -> None:
    request = layers()
    found = planned(request)
    parameters = tuple(
        own.model_copy(update={"owner": dict.fromkeys(own.owner, 0)})
        for own in found.stages[0].parameters
    )
    with pytest.raises(PlanError, match="owner"):
        verify_documents(
            changed(found, parameters=parameters), request.graph, request.topology, request.setup
        )


def test_what_is_not_summed_or_not_sent_is_found_out() -> None:
    request = layers()
    found = planned(request)
    moved = found.stages[0].redistributions
    for kind in ("reduce", "broadcast"):
        without = tuple(
            own.model_copy(update={"per_step": tuple(s for s in own.per_step if s.kind != kind)})
            for own in moved
        )
        assert without != moved
        wrong = changed(found, redistributions=without)
        certificate = verify(problem_of(request), wrong)
        assert certificate.outcome == "failed"


def test_what_can_be_cut_has_no_owner() -> None:
    request = layers().model_copy(update={"topology": topology(2, 2)})
    found = planned(request)
    assert not any(own.owner for own in found.stages[0].parameters)
    parameters = tuple(
        own.model_copy(update={"owner": {"node": 0}}) for own in found.stages[0].parameters
    )
    with pytest.raises(PlanError, match="cannot have an owner"):
        evaluate(
            problem_of(request),
            changed(found, parameters=parameters),
        )
