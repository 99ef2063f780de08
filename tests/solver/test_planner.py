"""The planner: equal to brute force on tiny problems, sensible on known ones, honest on all."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from meshwright.schema import (
    Budget,
    GraphError,
    Infeasible,
    Pin,
    Plan,
    PlanError,
    Progress,
    Request,
    RequestError,
    RuleError,
    Setup,
    SetupError,
    TooLarge,
    Topology,
)
from solver.assignment import Assignment, Read
from solver.evaluate import cost_of, evaluate
from solver.ledger import ledger_of
from solver.lowering import Models
from solver.mesh_outcome import TOLERANCE
from solver.meshes import meshes
from solver.planner import check, plan
from solver.uneven import Uneven
from solver.values import find_values
from tests.solver.small_graphs import GraphMaker, problem, topology

ONE_BATCH = Setup(microbatches=1)


def planned(request: Request) -> Plan:
    answer = plan(request)
    assert answer.infeasible is None
    assert answer.plan is not None
    return answer.plan


def refused(request: Request) -> Infeasible:
    answer = plan(request)
    assert answer.plan is None
    assert answer.infeasible is not None
    return answer.infeasible


def strategies(found: Plan) -> dict[str, dict[str, tuple[str, ...]]]:
    return {op.op: op.strategy for op in found.stages[0].ops}


def collectives(found: Plan, tensor: str, op: str | None = None) -> list[list[str]]:
    """Kinds of the steps of a tensor on its way to `op`: forward, backward, once a step."""
    moved = [r for r in found.stages[0].redistributions if (r.tensor, r.op) == (tensor, op)]
    return [
        [step.kind for r in moved for step in getattr(r, half)]
        for half in ("forward", "backward", "per_step")
    ]


# --- against enumeration -------------------------------------------------------------------------


def all_assignments(models: Models):
    """Every choice that the search has, enumerated from the models alone."""
    values, ops = models.values, models.ops
    positions = [p for p in range(len(models.problem.ops)) if p not in values.views]

    def rows(array: np.ndarray) -> list[tuple[int, ...]]:
        return [tuple(row) for row in np.unique(array, axis=0).tolist()]

    parameters = [v for v in values.values if v.is_parameter and v.readers]
    made = [v for v in values.values if not v.is_parameter and not v.is_free and v.producer]
    shared = [v for v in (*parameters, *made) if models.reads_shared(v)]
    reads = []
    for value in shared:
        needed = [ops.model(p).required(ops.model(p).choices, k) for p, k in value.readers]
        again = [False, True] if value.is_saved and not value.is_parameter else [False]
        reads.append([Read(c, g) for c in rows(np.concatenate(needed)) for g in again])
    for chosen in itertools.product(*(rows(ops.model(p).choices) for p in positions)):
        strategy = dict(zip(positions, chosen, strict=True))
        rest = {
            v.root: tuple(
                ops.model(v.producer[0])
                .made(np.array([strategy[v.producer[0]]]), v.producer[1])[0]
                .tolist()
            )
            for v in made
        }
        for read in itertools.product(*reads):
            for states in itertools.product(
                *(rows(models.parameter(v).states) for v in parameters)
            ):
                yield Assignment(
                    strategy,
                    rest,
                    {v.root: r for v, r in zip(shared, read, strict=True)},
                    {v.root: s for v, s in zip(parameters, states, strict=True)},
                )


def best_by_enumeration(request: Request) -> list[tuple[float, int]]:
    """(cost, memory) of every assignment that is possible, on every mesh, with spans or without."""
    found = []
    allowed = problem(request.graph, request.topology, request.setup)
    spaces = itertools.product(
        meshes(request.topology, request.budget.max_axes),
        {allowed.uneven.mode: allowed, "refuse": replace(allowed, uneven=Uneven())}.values(),
    )
    for mesh, built in spaces:
        models = Models(built, find_values(built), mesh)
        for assignment in all_assignments(models):
            try:
                cost = cost_of(models, [(ledger_of(models, assignment), 1)])
            except PlanError:  # layouts that do not meet
                continue
            memory = cost.memory_bytes.total - cost.memory_bytes.reserved
            found.append((cost.step_ns, memory))
    return found


def chain() -> GraphMaker:
    maker = GraphMaker()
    x = maker.input("x", 8, 64)
    a = maker.op("linear", [x, maker.parameter("w", 512, 64)], [8, 512], "first")
    maker.op("gelu", [a], [8, 512], "act")
    return maker


def odd_chain() -> GraphMaker:
    maker = GraphMaker()
    x = maker.input("x", 7, 63)
    a = maker.op("linear", [x, maker.parameter("w", 510, 63)], [7, 510], "first")
    maker.op("gelu", [a], [7, 510], "act")
    return maker


def odd_tied() -> GraphMaker:
    maker = GraphMaker()
    w = maker.parameter("w", 9, 9)
    a = maker.op("linear", [maker.input("x", 15, 9), w], [15, 9], "a")
    maker.op("linear", [a, w], [15, 9], "b")
    return maker


def branches() -> GraphMaker:
    maker = GraphMaker()
    a = maker.op("gelu", [maker.parameter("p", 8, 4)], [8, 4], "a")
    maker.op("add", [a, a], [8, 4], "b")
    return maker


def tied() -> GraphMaker:
    maker = GraphMaker()
    w = maker.parameter("w", 4, 4)
    a = maker.op("linear", [maker.input("x", 4, 4), w], [4, 4], "a")
    maker.op("linear", [a, w], [4, 4], "b")
    return maker


def rows_attending() -> GraphMaker:
    maker = GraphMaker()
    keys = maker.op("gelu", [maker.parameter("p", 1, 1, 6, 4)], [1, 1, 6, 4], "keys")
    maker.op("attention", [maker.input("q", 1, 1, 6, 4), keys, keys], [1, 1, 6, 4], "it")
    return maker


def rows_looked_up() -> GraphMaker:
    maker = GraphMaker()
    ids = maker.input("ids", 6, dtype="int64")
    maker.op("embedding", [maker.parameter("table", 6, 2), ids], [6, 2], "it")
    return maker


TINY = [
    ("a chain on one axis", chain, "act:out", (4,), 1),
    ("a chain on two axes", chain, "act:out", (2, 2), 2),
    ("two readers on one axis", branches, "b:out", (2,), 1),
    ("a shared parameter", tied, "b:out", (2,), 1),
    ("keys that go round or are gathered", rows_attending, "it:out", (2,), 1),
    ("rows asked for, summed or whole", rows_looked_up, "it:out", (2,), 1),
]
UNEVEN = [
    ("chunks of a chain on one axis", odd_chain, "act:out", (4,), 1),
    ("chunks of a chain on two axes", odd_chain, "act:out", (2, 2), 2),
    ("chunks of a shared parameter", odd_tied, "b:out", (2,), 1),
]


@pytest.mark.parametrize(
    ("maker", "output", "levels", "axes", "uneven"),
    [
        *(pytest.param(*t[1:], "refuse", id=t[0]) for t in (*TINY, *UNEVEN)),
        *(
            pytest.param(*t[1:], how, id=f"{t[0]}, {how}")
            for t in UNEVEN
            for how in ("chunk", "pad")
        ),
    ],
)
def test_the_plan_is_the_best_of_all_assignments_under_every_memory_limit(
    maker, output, levels, axes, uneven
):
    def request(memory_bytes: int) -> Request:
        return Request(
            graph=maker().graph(output),
            topology=topology(*levels, memory_bytes=memory_bytes, latency_ns=100),
            setup=Setup(microbatches=1, memory_reserve=0.0, uneven=uneven),
            budget=Budget(max_axes=axes),
        )

    everything = best_by_enumeration(request(1 << 40))
    best = min(cost for cost, _ in everything)
    free = planned(request(1 << 40))
    assert free.cost.step_ns == pytest.approx(best, rel=1e-9)
    assert free.search.outcome == "optimal"
    memories = sorted({memory for _, memory in everything})
    for limit in {memories[0], memories[len(memories) // 3], memories[2 * len(memories) // 3]}:
        best = min(cost for cost, memory in everything if memory <= limit)
        found = planned(request(limit))
        assert best * (1 - 1e-9) <= found.cost.step_ns <= best * (1 + 2 * TOLERANCE)
        assert found.search.lower_bound_ns <= best * (1 + 1e-9)
        assert found.cost.memory_bytes.total <= limit
    too_little = refused(request(memories[0] - 1))
    assert too_little.constraint == "memory"
    assert too_little.needed_bytes is not None
    assert too_little.available_bytes is not None
    assert too_little.needed_bytes > too_little.available_bytes


# --- what is shared is paid once -----------------------------------------------------------------


def projections(*, fused: bool, kv_heads: int) -> GraphMaker:
    """Query, key and value of 8 heads of 16; rows split over the sequence before them."""
    maker = GraphMaker()
    b, s, h, d, heads = 2, 64, 128, 16, 8
    x = maker.op("gelu", [maker.parameter("p", b, s, h)], [b, s, h], "x")
    widths = [heads * d, kv_heads * d, kv_heads * d]
    if fused:
        total = sum(widths)
        y = maker.op("linear", [x, maker.parameter("w", total, h)], [b, s, total], "qkv")
        own = maker.split(y, [[b, s, w] for w in widths], 2, "split")
    else:
        own = [
            maker.op("linear", [x, maker.parameter(f"w{n}", w, h)], [b, s, w], n)
            for n, w in zip("qkv", widths, strict=True)
        ]
    turned = []
    for name, tensor, count in zip("qkv", own, (heads, kv_heads, kv_heads), strict=True):
        split = maker.op("reshape", [tensor], [b, s, count, d], f"{name} heads")
        order = {"dims": [0, 2, 1, 3]}
        turned.append(
            maker.op("transpose", [split], [b, count, s, d], f"{name} turned", attrs=order)
        )
    maker.op("attention", turned, [b, heads, s, d], "attention")
    return maker


def communication(*, fused: bool, kv_heads: int) -> tuple[dict[str, float], int]:
    column = {"n": ("gpu",)}
    pins = [Pin(op="x", strategy={"d1": ("gpu",)})]
    if fused:
        # the part of the fused dim that is a head: its name comes from the refinement
        rule = "n1" if kv_heads == 8 else "n0"
        pins.append(Pin(op="qkv", strategy={rule: ("gpu",)}))
    else:
        pins += [Pin(op=name, strategy={"n0": column["n"]}) for name in "qkv"]
    pins.append(Pin(op="attention", strategy={"g": ("gpu",)}))
    found = planned(
        Request(
            graph=projections(fused=fused, kv_heads=kv_heads).graph("attention:out"),
            topology=topology(4),
            setup=ONE_BATCH,
            budget=Budget(max_axes=1),
            pins=tuple(pins),
        )
    )
    payload = sum(
        step.payload_bytes
        for moved in found.stages[0].redistributions
        if moved.traffic == "activation"
        for half in (moved.forward, moved.backward)
        for step in half
    )
    return found.cost.communication_ns, payload


@pytest.mark.parametrize("kv_heads", [8, 4])
def test_fused_and_unfused_projections_communicate_the_same_to_the_byte(kv_heads):
    # x, 2 * 64 * 128 float32 = 65536 bytes, is gathered once for all three and its gradient is
    # reduce-scattered once; heads need nothing more
    apart, apart_bytes = communication(fused=False, kv_heads=kv_heads)
    joint, joint_bytes = communication(fused=True, kv_heads=kv_heads)
    assert apart_bytes == joint_bytes == 2 * 65536
    assert apart["activation"] == joint["activation"]


def test_a_residual_stream_read_by_two_branches_is_gathered_and_reduced_once():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 64, 32)], [64, 32], "x")
    for name in ("left", "right"):
        maker.op("linear", [x, maker.parameter(f"w {name}", 32, 32)], [64, 32], name)
    rows, columns = {"d0": ("gpu",)}, {"n": ("gpu",)}
    found = planned(
        Request(
            graph=maker.graph("left:out", "right:out"),
            topology=topology(4),
            setup=ONE_BATCH,
            budget=Budget(max_axes=1),
            pins=(Pin(op="x", strategy=rows), Pin(op="*t", strategy=columns)),
        )
    )
    # one all-gather of 64 * 32 float32 = 8192 bytes, one reduce-scatter of the summed gradient
    (moved,) = [r for r in found.stages[0].redistributions if r.tensor == "x:out"]
    assert moved.op is None
    assert [(s.kind, s.payload_bytes) for s in moved.forward] == [("all_gather", 8192)]
    assert [(s.kind, s.payload_bytes) for s in moved.backward] == [("reduce_scatter", 8192)]


# --- plans that an expert expects ----------------------------------------------------------------


def transformer_mlp(batch: int, *, rows: int = 64, width: int = 2048) -> GraphMaker:
    """An embedding, a normalised MLP on a residual stream, a classifier."""
    maker = GraphMaker("bfloat16", batch=batch)
    shape = ["batch", rows, width]
    wide = ["batch", rows, 4 * width]
    ids = maker.input("ids", "batch", rows, dtype="int64")
    x = maker.op("embedding", [maker.parameter("words", 1024, width), ids], shape, "embed")
    normal = maker.op("rms_norm", [x, maker.parameter("scale", width)], shape, "norm")
    up = maker.op("linear", [normal, maker.parameter("w up", 4 * width, width)], wide, "up")
    act = maker.op("gelu", [up], wide, "act")
    down = maker.op("linear", [act, maker.parameter("w down", width, 4 * width)], shape, "down")
    x = maker.op("add", [x, down], shape, "residual")
    head = maker.parameter("w head", 1024, width)
    logits = maker.op("linear", [x, head], ["batch", rows, 1024], "head")
    label = maker.tensor("label", ["batch", rows], "label", dtype="int64")
    maker.op("cross_entropy", [logits, label], [], "loss")
    return maker


def mlp_request(batch: int, devices: Topology, **sizes: int) -> Request:
    graph = transformer_mlp(batch, **sizes).graph("loss:out", loss="loss:out")
    return Request(graph=graph, topology=devices, setup=ONE_BATCH)


def on(strategy: dict[str, tuple[str, ...]], *factors: str) -> set[str]:
    return {axis for factor in factors for axis in strategy.get(factor, ())}


def test_an_mlp_of_few_rows_and_large_weights_is_cut_column_then_row():
    # 128 rows against 2 * 16.8 M weights: reducing weight gradients would move 67 MB a step,
    # the Megatron pair moves 128 * 2048 * 2 bytes = 0.5 MB four times
    found = planned(mlp_request(2, topology(4, bytes_per_s=1e11)))
    plans = strategies(found)
    axes = {axis.name for axis in found.stages[0].mesh.axes}
    assert on(plans["up"], "n") == axes
    assert on(plans["act"], "d2") == axes
    assert on(plans["down"], "k") == axes
    # between them nothing; after them one reduction into shards, before them one gather
    assert collectives(found, "up:out", "act") == [[], [], []]
    assert collectives(found, "act:out", "down") == [[], [], []]
    assert collectives(found, "norm:out")[:2] == [["all_gather"], ["reduce_scatter"]]
    assert collectives(found, "down:out", "residual")[:2] == [["reduce_scatter"], ["all_gather"]]
    # what lies between the pairs is sharded too, as sequence parallelism has it: no device repeats
    assert on(plans["norm"], "b0", "b1", "h0") == axes
    assert on(plans["residual"], "d0", "d1", "d2") == axes
    assert found.repeated_work == 0


def test_many_rows_and_small_weights_are_cut_over_the_batch():
    found = planned(mlp_request(256, topology(4, bytes_per_s=1e10), width=32))
    axes = {axis.name for axis in found.stages[0].mesh.axes}
    for name in ("norm", "up", "act", "down", "residual", "head"):
        assert on(strategies(found)[name], "b0", "b1", "d0", "d1") == axes


@pytest.mark.parametrize("levels", [(3, 4), (6, 4)])
def test_devices_that_are_no_power_of_two_are_all_used(levels):
    found = planned(mlp_request(6, topology(*levels, bytes_per_s=1e11)))
    assert found.stages[0].mesh.device_count == math.prod(levels)
    assert found.repeated_work < 0.01
    assert all(note.startswith("simpler") for note in found.notes)


def test_a_batch_and_sizes_that_do_not_divide_are_noted_as_repeated_work():
    found = planned(mlp_request(7, topology(4), rows=9, width=15))
    assert found.repeated_work > 0.5
    assert any("repeated" in note for note in found.notes)
    assert any("of size 2" in note for note in found.notes)


def test_a_table_of_many_rows_is_split_over_its_rows_or_columns_and_never_copied():
    # 4 M rows of 64 float32 are 1 GiB, with states more than a device has
    maker = GraphMaker(batch=64)
    ids = maker.input("ids", "batch", dtype="int64")
    x = maker.op("embedding", [maker.parameter("table", 1 << 22, 64), ids], ["batch", 64], "look")
    y = maker.op("linear", [x, maker.parameter("w", 64, 64)], ["batch", 64], "dense")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    maker.op("cross_entropy", [y, label], [], "loss")
    found = planned(
        Request(
            graph=maker.graph("loss:out", loss="loss:out"),
            topology=topology(8, memory_bytes=3 << 30),
            setup=ONE_BATCH,
        )
    )
    (table,) = [p for p in found.stages[0].parameters if p.tensor == "table"]
    assert table.value_bytes == (1 << 30) // 8
    assert strategies(found)["look"].keys() <= {"v", "h"}


# --- honest answers ------------------------------------------------------------------------------


def test_the_same_request_gets_the_same_plan():
    request = mlp_request(4, topology(2, 2))
    assert planned(request).id == planned(Request.from_json(request.to_json())).id


def test_a_plan_carries_what_evaluate_says_and_a_bound_below_it():
    request = mlp_request(4, topology(2, 4))
    found = planned(request)
    built = problem(request.graph, request.topology, request.setup)
    assert evaluate(built, found) == found.cost
    assert found.search.cost_ns == found.cost.step_ns
    assert 0 < found.search.lower_bound_ns <= found.cost.step_ns
    assert found.search.gap == pytest.approx(1 - found.search.lower_bound_ns / found.search.cost_ns)
    assert found.search.outcome == "optimal"
    assert (found.graph, found.topology, found.setup) == (
        request.graph.id, request.topology.id, request.setup.id,
    )  # fmt: skip


def test_states_that_fit_nowhere_are_refused_at_once_with_the_devices_that_would_do():
    # 35 M parameters: bf16 value 2 bytes, gradient 4, Adam 8: 14 bytes each, without master copy
    answer = refused(mlp_request(4, topology(2, memory_bytes=1 << 20)))
    assert answer.constraint == "memory"
    assert answer.needed_bytes is not None
    assert answer.available_bytes == int((1 << 20) * 0.9)
    assert "GiB" in answer.detail
    assert "devices" in answer.detail


def test_activations_that_never_fit_name_memory_and_how_far_off():
    request = mlp_request(1, topology(2, memory_bytes=400_000), rows=2048, width=8)
    answer = refused(request.model_copy(update={"setup": Setup(microbatches=1)}))
    assert answer.constraint == "memory"
    assert answer.needed_bytes is not None
    assert answer.available_bytes == 360_000
    assert answer.needed_bytes > 360_000
    assert f"{answer.needed_bytes / 360_000:.2f} times" in answer.detail


def test_microbatches_double_until_a_plan_fits():
    def request(memory_bytes: int, microbatches: int | None = None) -> Request:
        graph = transformer_mlp(64, rows=64, width=64).graph("loss:out", loss="loss:out")
        return Request(
            graph=graph,
            topology=topology(2, memory_bytes=memory_bytes),
            setup=Setup(microbatches=microbatches),
        )

    roomy = planned(request(1 << 34))
    assert roomy.microbatches == 1
    limit = roomy.cost.memory_bytes.total - roomy.cost.memory_bytes.reserved
    tight = planned(request(limit // 2))
    assert tight.microbatches in (2, 4, 8)
    assert refused(request(limit // 2, 1)).constraint == "memory"
    held = tight.cost.memory_bytes
    assert held.total <= held.capacity


def test_microbatches_stop_where_the_graph_cannot_be_cut_further():
    # rows in pairs: a batch of 8 can be halved twice; the third time "batch//2" is no whole number
    maker = GraphMaker(batch=8)
    x = maker.op("linear", [maker.input("x", "batch", 512), maker.parameter("w", 512, 512)],
                 ["batch", 512], "a")  # fmt: skip
    y = maker.op("gelu", [x], ["batch", 512], "b")
    maker.op("reshape", [y], ["batch//2", 1024], "pairs")
    answer = refused(
        Request(graph=maker.graph("pairs:out"), topology=topology(1, memory_bytes=4_198_000))
    )
    assert answer.constraint == "memory"


def test_a_search_without_time_says_so_and_never_that_nothing_fits():
    answer = plan(
        mlp_request(4, topology(2, 4)).model_copy(update={"budget": Budget(seconds=1e-9)})
    )
    assert answer.plan is None
    assert answer.infeasible is not None
    assert answer.infeasible.constraint == "time"
    assert "time budget" in answer.infeasible.detail


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.05, 0.2])
def test_a_search_cut_short_gives_an_honest_plan_or_says_that_time_ended(seconds):
    request = mlp_request(8, topology(4, 8, memory_bytes=1 << 28))
    answer = plan(request.model_copy(update={"budget": Budget(seconds=seconds)}))
    if answer.infeasible is not None:
        assert answer.infeasible.constraint == "time"
        return
    assert answer.plan is not None
    search = answer.plan.search
    assert 0 <= search.lower_bound_ns <= search.cost_ns
    assert (search.outcome == "optimal") == (search.gap <= TOLERANCE * 1.000001)


def test_progress_names_each_mesh_and_ends():
    said: list[Progress] = []
    plan(mlp_request(4, topology(2, 8)), said.append)
    assert said[0].phase == "reading"
    assert said[-1].done == said[-1].total
    on_meshes = [progress for progress in said if "node" in progress.phase]
    assert len({progress.phase for progress in on_meshes}) == len(meshes(topology(2, 8), 3))
    costs = [progress.incumbent_ns for progress in on_meshes if progress.incumbent_ns is not None]
    assert costs
    assert costs == sorted(costs, reverse=True)


def test_an_empty_graph_has_an_empty_plan():
    found = planned(Request(graph=GraphMaker().graph(), topology=topology(2)))
    assert (found.cost.step_ns, found.search.gap, found.stages[0].ops) == (0, 0, ())


def test_one_device_needs_no_communication():
    found = planned(mlp_request(2, topology(1, memory_bytes=1 << 40)))
    assert sum(found.cost.communication_ns.values()) == 0
    assert found.stages[0].redistributions == ()
    assert found.repeated_work == 0


def test_inference_keeps_no_gradients_and_saves_nothing():
    request = mlp_request(4, topology(2, 2))
    request = request.model_copy(update={"setup": Setup(phase="inference", microbatches=1)})
    memory = planned(request).cost.memory_bytes
    assert (memory.gradients, memory.optimizer, memory.activations) == (0, 0, 0)


def test_five_levels_are_too_many_and_said_so():
    five = topology(2, 2, 2, 2).to_dict()
    five["levels"].append({**five["levels"][-1], "name": "die"})
    with pytest.raises(TooLarge, match="5 levels"):
        plan(mlp_request(4, Topology.from_dict(five)))


# --- bad requests --------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [plan, check])
@pytest.mark.parametrize(
    ("change", "error", "names"),
    [
        ({"setup": Setup(microbatches=3)}, SetupError, "4 cannot be cut into 3"),
        ({"setup": Setup(global_batch=10, microbatches=5, symbols={"s": 1})}, GraphError, "'s'"),
        ({"setup": Setup(symbols={"batch": -4})}, GraphError, "-4"),
        ({"pins": (Pin(op="nothing", strategy={}),)}, RequestError, "'nothing' matches no op"),
        ({"pins": (Pin(op="up", strategy={"z": ("gpu",)}),)}, RequestError, "no factor 'z'"),
        ({"pins": (Pin(op="up", strategy={"n": ("pod",)}),)}, RequestError, "no axis 'pod'"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(ask, change, error, names):
    request = mlp_request(4, topology(2, 2)).model_copy(update=change)
    with pytest.raises(error) as wrong:
        ask(request)
    assert names in wrong.value.detail


@pytest.mark.parametrize("flops", ["b - 1000", "b // 7"])
def test_a_rule_that_counts_no_flops_is_refused_and_its_op_named(flops):
    maker = GraphMaker()
    rule = {"notation": "b k -> b k", "flops": flops}
    maker.op("mine", [maker.parameter("p", 4, 4)], [4, 4], "strange", rule=rule)
    with pytest.raises(RuleError, match="op 'strange'"):
        plan(Request(graph=maker.graph("strange:out"), topology=topology(2)))


def entangled() -> GraphMaker:
    # 6 tensors that 6 ops read all together: eliminating any one joins the 5 or 6 others
    maker = GraphMaker()
    tensors = [
        maker.op("gelu", [maker.parameter(f"p{k}", 64, 64)], [64, 64], f"t{k}") for k in range(6)
    ]
    rule = ", ".join(["a b"] * 6) + " -> a b"
    for k in range(6):
        maker.op("mix", tensors, [64, 64], f"m{k}", rule=rule)
    return maker


def test_what_is_too_entangled_for_three_axes_is_eliminated_on_fewer():
    graph = entangled().graph(*(f"m{k}:out" for k in range(6)))
    request = Request(graph=graph, topology=topology(2, 4), solver="dynamic_programming")
    found = planned(request)
    assert [len(mesh.split(" × ")) for mesh in found.search.meshes] == [2]
    assert found.search.lower_bound_ns <= found.cost.step_ns


def test_what_is_too_entangled_to_eliminate_is_searched_all_the_same():
    graph = entangled().graph(*(f"m{k}:out" for k in range(6)))
    request = Request(graph=graph, topology=topology(2, 4), budget=Budget(seconds=20))
    found = planned(request)
    assert max(len(mesh.split(" × ")) for mesh in found.search.meshes) == 3
    assert found.search.lower_bound_ns <= found.cost.step_ns
    fewer = request.model_copy(update={"solver": "dynamic_programming"})
    assert found.cost.step_ns <= planned(fewer).cost.step_ns * (1 + 1e-9)
