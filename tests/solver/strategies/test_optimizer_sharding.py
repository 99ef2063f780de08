"""What a request says of parameters at rest: levels are ZeRO's stages, shards as large as asked."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from pydantic import ValidationError

from meshwright.schema import (
    Constraints,
    InvalidInput,
    OptimizerParallel,
    Plan,
    Request,
    RequestError,
    Setup,
)
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import plan
from meshwright_solver.strategies.optimizer_sharding import OptimizerSharding
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request, transformer_mlp
from tests.solver.small_graphs import GraphMaker, one_level_mesh, problem, topology

SIZES = (2, 4)
SLOTS = 2  # codes: 0 and 1 slots, 2 whole, 3 ZeRO-1, 4 ZeRO-2
EVERY = np.array([[a, b] for a in range(5) for b in range(5)])
MIXED = Setup(gradient_dtype="bfloat16", microbatches=1)


def allowed(needed: list[int], size_bytes: int = 1 << 20, **wish: object) -> set[tuple[int, int]]:
    rule = OptimizerSharding(OptimizerParallel.model_validate(wish))
    mask = rule.forbidden(EVERY, np.array([needed]), SIZES, slots=SLOTS, size_bytes=size_bytes)
    return {tuple(row) for row, bad in zip(EVERY.tolist(), mask[:, 0], strict=True) if not bad}


def test_without_a_wish_nothing_is_forbidden():
    mask = OptimizerSharding().forbidden(
        EVERY, np.array([[2, 4]]), SIZES, slots=SLOTS, size_bytes=1
    )
    assert not mask.any()


def test_a_level_is_the_finest_of_what_it_shards():
    # data parallel on both axes
    assert allowed([4, 4], level=0) == {(2, 2)}
    assert allowed([4, 4], level=1) == {(3, 3)}
    assert allowed([4, 4], level=2) == {(4, 4)}
    assert allowed([4, 4], level=3) == {(a, b) for a in (0, 1) for b in (0, 1)}


def test_what_the_reader_cuts_stays_cut_so():
    assert allowed([0, 4], level=1) == {(0, 3)}
    assert allowed([0, 4], level=0) == {(0, 2)}
    assert allowed([0, 1], level=2) == {(0, 1)}


def test_shards_are_as_large_as_asked():
    assert allowed([4, 4], level=2, shard_size=4) == {(2, 4)}  # axis 1 has 4 devices
    assert allowed([4, 4], level=2, shard_size=3) == {(4, 2)}
    assert allowed([4, 4], level=2, shard_size=1) == {(2, 2)}
    # an upper limit alone leaves the level, and less, to the search
    some = allowed([4, 4], shard_size=2)
    assert {(2, 2), (0, 2), (3, 2), (4, 2)} <= some
    assert all(second == 2 for _, second in some)


def test_small_parameters_stay_whole():
    assert allowed([4, 4], 64 * 1024, level=3) == {(2, 2)}
    assert allowed([4, 4], 64 * 1024 + 1, level=2) == {(4, 4)}
    assert allowed([4, 4], 2, level=2, threshold_kb=0) == {(4, 4)}


def test_accumulated_gradients_can_be_sharded_at_level_1():
    assert allowed([4, 4], level=1, gradient_accumulation_shard=True) == {(4, 4)}
    assert allowed([4, 4], level=1, gradient_accumulation_shard=False) == {(3, 3)}
    assert all(3 not in row for row in allowed([4, 4], gradient_accumulation_shard=True))
    assert all(4 not in row for row in allowed([4, 4], gradient_accumulation_shard=False))


@pytest.mark.parametrize(
    "wish",
    [
        {"level": 0, "gradient_accumulation_shard": True},
        {"level": 2, "gradient_accumulation_shard": False},
        {"level": 3, "gradient_accumulation_shard": False},
    ],
)
def test_a_level_and_accumulation_that_contradict_it_are_refused(wish: dict[str, object]):
    with pytest.raises((RequestError, InvalidInput, ValidationError), match="level"):
        OptimizerParallel.model_validate(wish)


# --- whole plans ---------------------------------------------------------------------------------


def asked(batch: int = 64, *sizes: int, **wish: object) -> Request:
    graph = transformer_mlp(batch, width=512).graph("loss:out", loss="loss:out")
    return toy_request(
        graph=graph,
        topology=topology(*(sizes or SIZES)),
        setup=MIXED,
        constraints=Constraints(optimizer_parallel=OptimizerParallel.model_validate(wish)),
        solver="semi_auto",  # data parallel
    )


def parameter_elements(found: Plan) -> int:
    return sum(
        prod(part.size for dim in own.value.dims for part in dim.parts)
        for own in found.stages[0].parameters
    )


@pytest.mark.parametrize(
    ("level", "held"),
    [(0, (2, 2, 12)), (1, (2, 2, 12 / 8)), (2, (2, 2 / 8, 12 / 8)), (3, (2 / 8, 2 / 8, 12 / 8))],
)
def test_levels_of_data_parallel_plans_hold_what_the_zero_paper_says(level, held):
    # ZeRO (Rajbhandari et al. 2020), figure 1: 2 Psi + 2 Psi + K Psi, K = 12
    request = asked(level=level, threshold_kb=0)
    found = planned(request)
    psi, memory = parameter_elements(found), found.cost.memory_bytes
    parts = (memory.parameters, memory.gradients, memory.optimizer)
    assert parts == pytest.approx([psi * own for own in held])
    assert evaluate(problem(request.graph, request.topology, MIXED), found) == found.cost


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_plans_of_every_level_are_right(level):
    request = asked(8, 2, 2, level=level, threshold_kb=0)
    found = planned(request)
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"


def test_a_wish_costs_no_less_than_the_search_finds_without_one():
    free = planned(asked().model_copy(update={"solver": "auto", "constraints": Constraints()}))
    for level in range(4):
        own = planned(asked(level=level).model_copy(update={"solver": "auto"}))
        assert own.cost.objective_ns >= free.search.lower_bound_ns
        assert (
            own.cost.objective_ns >= free.cost.objective_ns * (1 - 1e-9) - free.search.simplicity_ns
        )


@pytest.mark.parametrize("solver", ["recursive_programming", "sharding_propagation", "exact"])
def test_other_searches_keep_it_too(solver):
    request = asked(level=1, shard_size=2, threshold_kb=0)
    found = planned(request.model_copy(update={"solver": solver}))
    for own in found.stages[0].parameters:
        assert own.optimizer is not None
        assert own.value == own.gradient
        beyond = ways(own.optimizer, found) / ways(own.value, found)
        assert beyond in (1, 2)


def ways(layout, found: Plan) -> int:
    sizes = {axis.name: axis.size for axis in found.stages[0].mesh.axes}
    return prod(sizes[axis] for dim in layout.dims for p in dim.parts for axis in p.axes)


def test_pipeline_stages_keep_it():
    maker = GraphMaker("bfloat16", batch=64)
    x = maker.input("x", "batch", 512)
    for k in range(4):
        weight = maker.parameter(f"w{k}", 512, 512)
        x = maker.op("linear", [x, weight], ["batch", 512], f"layer{k}")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [x, label], [], "loss")
    request = toy_request(
        graph=maker.graph(loss, loss=loss),
        topology=one_level_mesh(4)[0],
        setup=Setup(microbatches=4, gradient_dtype="bfloat16"),
        constraints=Constraints(optimizer_parallel=OptimizerParallel(level=0)),
        pipeline={"ranks": 2, "schedule": "1f1b"},
    )
    found = plan(request).plan
    assert found is not None
    assert len(found.stages) == 2
    for stage in found.stages:
        for own in stage.parameters:
            assert own.value == own.gradient == own.optimizer
