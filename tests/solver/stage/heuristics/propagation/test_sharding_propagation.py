"""Propagation: seeds are kept, everything else has a strategy that an exact search finds good."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.common.files import read_document
from meshwright.schema import Budget as RequestBudget
from meshwright.schema import Graph, Pin, Setup
from meshwright_costmodel.calibrations import half_exposed_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.constraints.pin_filters import pin_filters
from meshwright_solver.constraints.pins import exactly, matching_pins, pinned_ops
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.folding.fold import fold
from meshwright_solver.lowering.lower import lower
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.stage.heuristics.propagation.inputs import Propagation
from meshwright_solver.stage.heuristics.propagation.sharding_propagation import (
    at_prices,
    sharding_propagation,
)
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter
from meshwright_solver.verification.verify import verify, verify_documents
from tests.solver.completions import axes_on, completed_cost_ns, completed_plan, least_cost_ns
from tests.solver.random_problems import Case, cases
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, models, topology

GRAPHS = Path(__file__).parents[5] / "examples" / "graphs"


def random_seeds(found: Models, count: int, seed: int) -> dict[int, StrategyFilter]:
    """Some strategy for some ops."""
    random = np.random.default_rng(seed)
    planned = [p for p in range(len(found.problem.ops)) if p not in found.values.views]
    chosen = random.permutation(planned)[:count].tolist()
    return {p: exactly(random.choice(found.ops.model(p).choices)) for p in chosen}


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_every_op_has_a_valid_strategy_and_seeds_keep_theirs(case: Case, count: int, seed: int):
    seeds = random_seeds(case.models, count, seed)
    found = sharding_propagation(case.models, seeds)
    planned = set(range(len(case.models.problem.ops))) - case.models.values.views
    assert found.strategies.keys() == planned
    for position, row in found.strategies.items():
        choices = case.models.ops.model(position).choices
        own = (choices == row).all(axis=1)
        assert own.sum() == 1
        if position in seeds:
            assert seeds[position](case.models.ops.model(position), choices)[own].all()


@settings(max_examples=50, deadline=None)
@given(cases(), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_what_it_says_it_costs_is_the_least_with_its_strategies(case: Case, count: int, seed: int):
    seeds = random_seeds(case.models, count, seed)
    found = sharding_propagation(case.models, seeds)
    assert found.cost_ns == pytest.approx(
        completed_cost_ns(case.models, found.strategies), rel=1e-9
    )
    assert found.cost_ns >= least_cost_ns(case.models, seeds) * (1 - 1e-9)
    again = sharding_propagation(case.models, seeds)
    assert all((again.strategies[p] == row).all() for p, row in found.strategies.items())
    assert (again.conflicts, again.notes) == (found.conflicts, found.notes)


@settings(max_examples=25, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_with_all_ops_seeded_the_answer_is_the_seeds(case: Case, seed: int):
    seeds = random_seeds(case.models, len(case.models.problem.ops), seed)
    found = sharding_propagation(case.models, seeds)
    for position, row in found.strategies.items():
        assert seeds[position](case.models.ops.model(position), row[None, :]).all()


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_what_is_repeated_although_it_need_not_be_is_said(case: Case, count: int, seed: int):
    found = sharding_propagation(case.models, random_seeds(case.models, count, seed))
    for a, axis in enumerate(case.models.mesh.axes):
        repeated = [p for p, row in found.strategies.items() if could_share(case.models, p, row, a)]
        said = [note for note in found.notes if note.startswith(f"axis {axis.name!r}")]
        assert len(said) == (1 if repeated else 0)
        for note in said:
            assert f": {len(repeated)} of " in note
            assert case.models.problem.ops[repeated[0]].name in note


def could_share(found: Models, position: int, row: IntArray, axis: int) -> bool:
    """Whether the axis lies on nothing and another strategy, alike elsewhere, puts it on a part."""
    model = found.ops.model(position)
    if row[axis] != model.idle or model.axis_sizes[axis] == 1:
        return False
    return any(
        all(own[b] == row[b] for b in range(len(row)) if b != axis)
        and own[axis] != model.idle
        and model.workers(own[None, :])[0] > model.workers(row[None, :])[0]
        for own in model.choices
    )


# --- a hand-made block ----------------------------------------------------------------------------


def block(layers: int = 1) -> GraphMaker:
    """Transformer blocks with few heads, trained on a loss."""
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 16, 32)
    for k in range(layers):
        x = attention_block(maker, x, f"{k}.")
        up = maker.op("linear", [x, maker.parameter(f"{k}.w_up", 128, 32)], ["batch", 16, 128],
                      f"{k}.up")  # fmt: skip
        act = maker.op("gelu", [up], ["batch", 16, 128], f"{k}.act")
        down = maker.op("linear", [act, maker.parameter(f"{k}.w_down", 32, 128)],
                        ["batch", 16, 32], f"{k}.down")  # fmt: skip
        x = maker.op("add", [x, down], ["batch", 16, 32], f"{k}.add2")
        x = maker.op("layer_norm", [x, maker.parameter(f"{k}.scale", 32)], ["batch", 16, 32],
                     f"{k}.norm")  # fmt: skip
    loss = maker.op("mean", [x], [], "loss", attrs={"dims": [0, 1, 2]})
    maker.tensors[-1]["name"] = loss
    return maker


def attention_block(maker: GraphMaker, x: str, at: str) -> str:
    heads = []
    for name in "qkv":
        weight = maker.parameter(f"{at}w_{name}", 32, 32)
        own = maker.op("linear", [x, weight], ["batch", 16, 32], at + name)
        own = maker.op("reshape", [own], ["batch", 16, 4, 8], f"{at}{name}.split")
        heads.append(
            maker.op("transpose", [own], ["batch", 4, 16, 8], f"{at}{name}.turn",
                     attrs={"dims": [0, 2, 1, 3]})
        )  # fmt: skip
    mixed = maker.op("attention", heads, ["batch", 4, 16, 8], f"{at}attention")
    back = maker.op("transpose", [mixed], ["batch", 16, 4, 8], f"{at}back",
                    attrs={"dims": [0, 2, 1, 3]})  # fmt: skip
    flat = maker.op("reshape", [back], ["batch", 16, 32], f"{at}flat")
    out = maker.op("linear", [flat, maker.parameter(f"{at}w_o", 32, 32)], ["batch", 16, 32],
                   f"{at}o")  # fmt: skip
    return maker.op("add", [x, out], ["batch", 16, 32], f"{at}add")


def propagated(found: Models, *pins: Pin) -> Propagation:
    pinned = pinned_ops(found.problem, pins, found.values.views)
    return sharding_propagation(
        found, pin_filters(found.problem, pinned, values=found.values, mesh=found.mesh)
    )


def block_models(layers: int = 1) -> Models:
    maker = block(layers)
    return models(maker.graph("loss:out", loss="loss:out"), (2, 4))


Q = Pin(op="*.q", strategy={"b0": ("a0",), "n": ("a1",)})
UP = Pin(op="*.up", strategy={"b0": ("a0",), "n": ("a1",)})


def test_heads_and_columns_spread_from_the_query_and_up_projections():
    found = block_models(2)
    answer = propagated(found, Q, UP)
    assert answer.conflicts == ()

    def on(name: str) -> dict[str, str]:
        position = next(k for k, op in enumerate(found.problem.ops) if op.name == name)
        return axes_on(found, name, answer.strategies[position])

    for k in range(2):
        for name in ("k", "v"):
            assert on(f"{k}.{name}") == {"a0": "b0", "a1": "n0"}
        assert on(f"{k}.attention") == {"a0": "b", "a1": "g"}
        assert on(f"{k}.act") == {"a0": "d0", "a1": "d2"}


def test_a_completed_plan_is_judged_and_executed():
    found = block_models()
    answer = propagated(found, Q, UP)
    plan = completed_plan(found, answer.strategies)
    cost = evaluate(found.problem, plan)
    assert cost.objective_ns == pytest.approx(answer.cost_ns, rel=1e-9)
    certificate = verify(found.problem, plan)
    assert certificate.outcome == "verified", certificate.detail


def test_tied_ops_have_one_strategy():
    found = block_models(5)
    names = [op.name for op in found.problem.ops]
    tied = [[names.index(f"{k}.{name}") for k in (1, 2, 3)] for name in ("q", "down", "add")]
    up = names.index("1.up")
    seed = {up: exactly(found.ops.model(up).choices[0])}
    alone = sharding_propagation(found, seed)
    assert any(len({alone.strategies[p].tobytes() for p in group}) > 1 for group in tied)
    answer = sharding_propagation(found, seed, tied)
    for group in tied:
        assert len({answer.strategies[p].tobytes() for p in group}) == 1


def test_strategies_that_are_not_allowed_are_not_taken():
    found = block_models()
    names = [op.name for op in found.problem.ops]

    def idle(model, choices):
        return (choices == model.idle).all(axis=1)

    answer = sharding_propagation(found, {}, (), {names.index("0.act"): idle})
    row = answer.strategies[names.index("0.act")]
    assert (row == found.ops.model(names.index("0.act")).idle).all()


def test_a_folded_request_is_planned_by_propagation_and_executed():
    """Nine layers are folded into five; whether they are, the plan does not show."""
    maker = block(9)
    request = toy_request(
        graph=maker.graph("loss:out", loss="loss:out"),
        topology=topology(2, 4),
        setup=Setup(microbatches=1),
        budget=RequestBudget(max_axes=2),
        pins=(Pin(op="*.q", strategy={"b0": ("node",), "n": ("gpu",)}),),
        solver="sharding_propagation",
    )
    assert fold(request.graph, {}).levels
    found = plan(request).plan
    assert found is not None
    assert found.wishes.solver == "sharding_propagation"
    queries = [own for own in found.stages[0].ops if own.op.endswith(".q")]
    assert len(queries) == 9
    assert all(own.strategy == {"b0": ("node",), "n0": ("gpu",)} for own in queries)
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail


# --- unseeded -------------------------------------------------------------------------------------


def test_parts_without_a_seed_are_settled_each_by_itself_and_it_is_said():
    maker = GraphMaker(batch=16)
    for name in "ab":
        x = maker.input(f"x{name}", "batch", 64)
        w = maker.parameter(f"w{name}", 64, 64)
        y = maker.op("linear", [x, w], ["batch", 64], f"{name}.fc")
        maker.op("gelu", [y], ["batch", 64], f"{name}.act")
    found = models(maker.graph("a.act:out", "b.act:out"), (4,))
    answer = propagated(found, Pin(op="a.fc", strategy={"n": ("a0",)}))
    notes = [note for note in answer.notes if note.startswith("no strategy")]
    assert len(notes) == 1
    assert "the 2 ops connected with 'b.fc'" in notes[0]
    assert answer.cost_ns == pytest.approx(
        least_cost_ns(found, {0: exactly(answer.strategies[0])}), rel=1e-9
    )


def test_memory_at_a_price_is_used_less():
    found = block_models(2)
    answers = list(at_prices(lambda price: sharding_propagation(found, {}, (), {}, price), 1e6))
    assert len(answers) > 1
    for cheap, lean in pairwise(answers):
        assert lean.memory_bytes <= cheap.memory_bytes
        assert lean.cost_ns >= answers[0].cost_ns * (1 - 1e-9)


# --- the examples ---------------------------------------------------------------------------------


def example(
    name: str, topology: str, axes: int, pins: tuple[Pin, ...] = (), **setup: int
) -> Models:
    graph = read_document(GRAPHS / f"{name}.json.gz", Graph)
    devices = preset(topology)
    folded = fold(graph, matching_pins(graph, pins))
    built = build_problem(folded.graph, devices, Setup(**setup), half_exposed_calibration(), 1)
    return Models(built, find_values(built), meshes(devices, axes)[0])


@pytest.mark.parametrize(
    ("name", "topology"),
    [("llama3-8b", "h100-1x8"), ("bert-large", "h100-1x8"), ("wide-deep", "h100-2x8"),
     ("mixtral-8x7b", "h100-2x8"), ("resnet50", "h100-1x8")],
)  # fmt: skip
def test_without_seeds_examples_come_within_one_per_cent_of_the_optimum(name: str, topology: str):
    found = example(name, topology, 2)
    answer = sharding_propagation(found, {})
    assert answer.cost_ns <= 1.01 * least_cost_ns(found, {})


@pytest.mark.parametrize(
    ("name", "seeds", "wanted"),
    [
        ("llama3-8b", ("*.q_proj", "*.up_proj"), {
            "*.k_proj": "n0", "*.v_proj": "n0", "*.attention": "g", "*.o_proj": "k0",
            "*.gate_proj": "n", "*.down_proj": "k",
        }),
        ("bert-large", ("*.query", "*.intermediate.dense"), {
            "*.key": "n0", "*.value": "n0", "*.self.attention": "g", "*[0-9].output.dense": "k",
        }),
    ],
)  # fmt: skip
def test_from_two_projections_megatron_spreads(
    name: str, seeds: tuple[str, ...], wanted: dict[str, str]
):
    """Two ways of data, four of tensors: heads and columns, then rows; nothing heavy repeated."""
    pins = tuple(Pin(op=op, strategy={"b0": ("gpu1",), "n": ("gpu0",)}) for op in seeds)
    # of a sequence each: of more, weights cost next to nothing, and the output projection is
    # cheaper on tokens, where its products are less narrow
    setup = {"global_batch": 2, "allow_all_to_all": False}
    found = example(name, "h100-1x8", 2, pins, **setup)
    answer = propagated(found, *pins)
    assert answer.conflicts == ()
    for glob, part in wanted.items():
        ops = [op.name for op in found.problem.ops if fnmatchcase(op.name, glob)]
        assert len(ops) >= 5  # of a folded graph
        for op in ops:
            position = next(p for p, own in enumerate(found.problem.ops) if own.name == op)
            placed = axes_on(found, op, answer.strategies[position])
            assert placed["gpu0"] == part, op
            assert placed["gpu1"] in ("b0", "b"), op
    allowed = pin_filters(found.problem, pinned_ops(found.problem, pins, found.values.views),
                          values=found.values, mesh=found.mesh)  # fmt: skip
    assert answer.cost_ns <= 1.002 * least_cost_ns(found, allowed)


@pytest.mark.parametrize("name", ["llama3-8b", "wide-deep"])
def test_from_the_optimum_s_heavy_ops_the_optimum_follows(name: str):
    found = example(name, "h100-1x8", 2)
    lowered = lower(found, {}, None)
    best = optimum(found)
    heavy = {p: exactly(row) for p, row in best.items() if found.ops.model(p).op_class == "matmul"}
    assert 0 < len(heavy) < len(lowered.op_node)
    answer = sharding_propagation(found, heavy)
    assert answer.cost_ns <= 1.002 * least_cost_ns(found, {})


def optimum(found: Models) -> dict[int, IntArray]:
    lowered = lower(found, {}, None)
    choice = dynamic_programming(lowered.graph, SearchBudget()).choice
    assert choice is not None
    return {p: lowered.op_choices[p][choice[node]] for p, node in lowered.op_node.items()}
