"""Optimizer state and tables on hosts: hand-worked times, brute force, plans that fit only so."""

from __future__ import annotations

from io import StringIO
from math import prod
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from meshwright.common.files import read_document
from meshwright.common.units import show_bytes
from meshwright.render import render_plan
from meshwright.schema import Budget, Graph, PlanError, Request, RequestError, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.evaluation.evaluate import cost_of_all, evaluate
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.offload import DEVICE, GRADIENT, OPTIMIZER, TABLE
from meshwright_solver.strategies.optimizer_sharding import OptimizerSharding
from meshwright_solver.verification.verify import verify_documents
from tests.one_stage import one_stage_request
from tests.solver.hosted import GIB, hosted, offloading
from tests.solver.planning.test_enumeration import all_assignments, chain
from tests.solver.requests import planned, problem_of, refused, toy_request, transformer_mlp
from tests.solver.small_graphs import GraphMaker, one_level_mesh, problem

GRAPHS = Path(__file__).parents[3] / "examples" / "graphs"
ROWS, WIDTH = 4096, 8


def looked_up() -> GraphMaker:
    maker = GraphMaker()
    ids = maker.input("ids", 6, dtype="int64")
    maker.op("embedding", [maker.parameter("table", ROWS, WIDTH), ids], [6, WIDTH], "it")
    return maker


def parameter(maker: GraphMaker, output: str, name: str, what: str, microbatches: int = 1):
    """A parameter's model on one axis of two devices, with a host of 100 and a link of 50 GB/s."""
    _, mesh = one_level_mesh(2)
    built = problem(
        maker.graph(output), hosted(2), Setup(microbatches=microbatches, memory_reserve=0.0)
    )
    models = Models(built, find_values(built), mesh, at_rest=OptimizerSharding(offload=what))
    return models.parameter(models.values.value_of[name])


def batched() -> GraphMaker:
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 64)
    maker.op("linear", [x, maker.parameter("w", 512, 64)], ["batch", 512], "first")
    return maker


def at(model, codes: int, place: int) -> np.ndarray:
    return np.array([[codes + place * model.space.base]])


def test_the_update_goes_down_is_done_and_comes_up():
    model = parameter(batched(), "first:out", "w", "optimizer")
    states = at(model, 0, GRADIENT)  # half of 512 x 64, cut by its reader
    elements = 512 * 64 / 2
    times = model.host_times(states)
    # fp32: two moments read and written, a gradient read, a value written; no master copy
    assert times.work[0] == pytest.approx(elements * (2 * 8 + 4 + 4) / (1e11 * 0.5) * 1e9)
    share = elements * 4 / (25 * 2**20)
    assert times.down[0] == pytest.approx(elements * 4 / (5e10 * 0.8) * 1e9 + share * 1000)
    assert times.up[0] == pytest.approx(times.down[0])
    assert model.update_ns(states)[0] == 0
    assert [float(own[0]) for own in model.memory_bytes(states)] == [elements * 4, 0, 0]
    assert model.host_bytes(states)[0] == elements * (8 + 4)


def test_a_gradient_on_the_host_is_sent_and_added_in_every_microbatch():
    model = parameter(batched(), "first:out", "w", "optimizer", microbatches=4)
    kept, sent = (model.host_times(at(model, 0, place)) for place in (OPTIMIZER, GRADIENT))
    elements = 512 * 64 / 2
    added = 3 * elements * 8 / (1e11 * 0.5) * 1e9  # read and written, thrice
    assert sent.down[0] == pytest.approx(4 * kept.down[0] + added)
    assert sent.work[0] == kept.work[0]
    memory = [float(own[0]) for own in model.memory_bytes(at(model, 0, OPTIMIZER))]
    assert memory == [elements * 4, elements * 4, 0]


def test_places_are_those_that_are_asked_for():
    def places(what: str, microbatches: int = 1) -> set[int]:
        model = parameter(batched(), "first:out", "w", what, microbatches)
        return set(model.place(model.states).tolist())

    assert places("none") == {DEVICE}
    assert places("embeddings") == {DEVICE}  # a product reads all of it
    assert places("auto") == {DEVICE, GRADIENT}
    assert places("optimizer", 2) == {DEVICE, OPTIMIZER, GRADIENT}
    table = parameter(looked_up(), "it:out", "table", "embeddings")
    assert set(table.place(table.states).tolist()) == {DEVICE, TABLE}


def test_rows_of_a_table_go_up_and_their_gradients_down():
    model = parameter(looked_up(), "it:out", "table", "embeddings")
    states = at(model, 0, TABLE)  # half of the rows on each host
    rows = 6 / 2 * WIDTH  # elements that a device asks for, where the ids are cut too
    found = model.lookup_times(states, np.array([rows]))
    link = rows * 4 / (5e10 * 0.8) * 1e9 + rows * 4 / (25 * 2**20) * 1000
    assert found.up[0, 0] == pytest.approx(link)
    per_byte = 1e9 / (1e11 * 0.5)
    assert found.down[0, 0] == pytest.approx(link + rows * 8 * per_byte)
    # read once; then only the rows that were touched are updated
    assert found.work[0, 0] == pytest.approx(rows * (4 + 24) * per_byte)
    assert sum(own[0] for own in model.memory_bytes(states)) == 0
    assert model.host_bytes(states)[0] == ROWS * WIDTH / 2 * (4 + 4 + 8)
    # of more rows than there are all are updated once
    most = model.lookup_times(states, np.array([10.0 * ROWS * WIDTH]))
    touched = ROWS * WIDTH / 2 * 24 * per_byte
    assert most.work[0, 0] == pytest.approx(10 * ROWS * WIDTH * 4 * per_byte + touched)


def test_a_table_lies_on_hosts_as_its_reader_needs_it():
    model = parameter(looked_up(), "it:out", "table", "embeddings")
    n = model.space.slots
    needed = np.array([[0], [n], [n + 2]])  # rows cut, whole, whole with a partial gradient
    kept = [not model.not_on_host(at(model, code, TABLE), needed)[0].tolist()[k]
            for code, k in ((0, 0), (n, 1), (n + 2, 2), (0, 1), (0, 2), (n, 2))]  # fmt: skip
    assert kept == [True, True, False, False, False, False]


# --- brute force ---------------------------------------------------------------------------------

CASES = [
    pytest.param(chain, "act:out", (4,), 1, "optimizer", id="a chain on one axis"),
    pytest.param(looked_up, "it:out", (2,), 1, "embeddings", id="a table"),
    pytest.param(looked_up, "it:out", (2,), 1, "auto", id="a table or its optimizer"),
]


@pytest.mark.parametrize(("maker", "output", "levels", "axes", "what"), CASES)
def test_the_plan_is_the_best_of_all_assignments_under_every_memory_limit(
    maker, output, levels, axes, what
):
    def request(memory_bytes: int) -> Request:
        return toy_request(
            graph=maker().graph(output),
            topology=hosted(*levels, memory_bytes=memory_bytes, latency_ns=100),
            setup=Setup(microbatches=1, memory_reserve=0.0),
            budget=Budget(max_axes=axes),
            constraints=offloading(what),
        )

    roomy = request(1 << 40)
    everything = []
    built = problem_of(roomy)
    for mesh in meshes(roomy.topology, axes):
        models = Models(built, find_values(built), mesh, at_rest=OptimizerSharding(offload=what))
        for assignment in all_assignments(models):
            try:
                cost = cost_of_all(models, assignment)
            except PlanError:  # layouts that do not meet
                continue
            everything.append((cost.objective_ns, cost.memory_bytes.total, cost.memory_bytes.host))
    assert any(host for *_, host in everything)
    best = min(everything)[0]
    assert planned(roomy).cost.objective_ns == pytest.approx(best, rel=1e-9)
    memories = sorted({memory for _, memory, _ in everything})
    used = set()
    thirds = (memories[len(memories) // 3], memories[2 * len(memories) // 3])
    for limit in (max(1, memories[0]), *thirds):  # on hosts with all that it has a table takes 0
        best = min(cost for cost, memory, _ in everything if memory <= limit)
        found = planned(request(limit))
        assert best * (1 - 1e-9) <= found.cost.objective_ns <= best * (1 + 2 * TOLERANCE)
        assert found.search.lower_bound_ns <= best * (1 + 1e-9)
        assert found.cost.memory_bytes.total <= limit
        used.add(found.cost.memory_bytes.host > 0)
    assert True in used


# --- plans ---------------------------------------------------------------------------------------


def mlp(what: str, memory_bytes: int, **host: int) -> Request:
    return toy_request(
        graph=transformer_mlp(8, rows=8, width=512).graph("loss:out", loss="loss:out"),
        topology=hosted(2, 2, memory_bytes=memory_bytes, **host),
        setup=Setup(microbatches=2, memory_reserve=0.0),
        constraints=offloading(what),
    )


def test_offloaded_plans_say_so_are_judged_alike_and_right():
    room = 10 << 20  # 3.1 million parameters take 18 bytes each, over four devices 13.5 MiB
    assert refused(mlp("none", room)).constraint == "memory"
    request = mlp("auto", room)
    found = planned(request)
    on_host = [own for own in found.stages[0].parameters if own.on_host]
    assert on_host
    assert all(own.host_bytes > 0 and own.link_ns > 0 for own in on_host)
    assert all("optimizer" in own.on_host and own.optimizer_bytes == 0 for own in on_host)
    memory = found.cost.memory_bytes
    assert memory.host == sum(own.host_bytes for own in on_host)
    assert memory.host_capacity == 1 << 40
    assert found.cost.communication_ns["host"] == pytest.approx(
        sum(own.link_ns + own.host_ns for own in on_host)
    )
    assert evaluate(problem_of(request), found) == found.cost
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"
    console = Console(width=200, record=True, file=StringIO())
    console.print(render_plan(found))
    shown = " ".join(console.export_text().split())
    assert ", on host" in shown
    assert f"on the host {show_bytes(memory.host)} of 1 TiB a device" in shown


def test_nothing_changes_where_nothing_may_be_offloaded():
    request = mlp("none", 1 << 34)
    without = request.model_copy(
        update={"topology": request.topology.model_copy(update={"host": None})}
    )
    assert planned(request).cost.objective_ns == planned(without).cost.objective_ns
    assert planned(request).cost.memory_bytes.host == 0


def test_where_hosts_could_be_too_full_the_finest_shards_go_there():
    # 3.1 million parameters of 18 bytes: repeated on four hosts 54 MiB each, in shards 13.5 MiB
    found = planned(mlp("optimizer", 10 << 20, host_bytes=16 << 20))
    on_host = [own for own in found.stages[0].parameters if own.on_host]
    assert on_host
    assert found.cost.memory_bytes.host <= 16 << 20
    sizes = {axis.name: axis.size for axis in found.stages[0].mesh.axes}
    for own in on_host:
        assert own.optimizer is not None
        axes = [axis for dim in own.optimizer.dims for part in dim.parts for axis in part.axes]
        assert prod(sizes[axis] for axis in axes) == 4


def test_what_does_not_fit_into_hosts_is_refused():
    none = refused(mlp("auto", 4 << 20, host_bytes=1 << 20))
    assert none.constraint == "memory"
    assert "toy host has" in none.detail
    assert none.needed_bytes is not None
    assert none.needed_bytes > 1 << 20


def test_a_plan_cannot_keep_on_hosts_what_cannot_lie_there():
    found = planned(mlp("auto", 16 << 20))
    stage = found.stages[0]
    for on_host, why in (
        (("value",), "use optimizer; "),
        (("value", "gradient", "optimizer"), "rows"),
    ):
        parameters = tuple(
            own.model_copy(update={"on_host": on_host}) if own.tensor == "w up" else own
            for own in stage.parameters
        )
        wrong = found.model_copy(
            update={"stages": (stage.model_copy(update={"parameters": parameters}),)}
        )
        request = mlp("auto", 16 << 20)
        with pytest.raises(PlanError, match=why):
            evaluate(problem_of(request), wrong)


def test_llama_70b_fits_on_eight_devices_only_with_its_optimizer_on_hosts():
    graph = read_document(GRAPHS / "llama3-70b.json.gz", Graph)
    request = one_stage_request(
        graph=graph,
        topology=preset("h100-1x8"),
        setup=Setup(global_batch=16, microbatches=16),
        budget=Budget(max_axes=1),
    )
    assert refused(request).constraint == "memory"
    found = planned(request.model_copy(update={"constraints": offloading("optimizer")}))
    memory = found.cost.memory_bytes
    assert memory.total <= memory.capacity
    # 70.6e9 parameters: two fp32 moments and an fp32 copy, over eight hosts' shares
    assert memory.optimizer + memory.host > 70e9 * 12 / 8
    assert memory.host < memory.host_capacity


def test_a_table_larger_than_all_devices_together():
    maker = GraphMaker(batch=4096)
    ids = maker.input("ids", "batch", 16, dtype="int64")
    table = maker.parameter("table", 1 << 30, 64)  # 256 GiB, and its optimizer's state
    rows = maker.op("embedding", [table, ids], ["batch", 16, 64], "look up")
    out = maker.op("linear", [rows, maker.parameter("w", 64, 64)], ["batch", 16, 64], "deep")
    loss = maker.op("mean", [out], [], "loss")
    request = toy_request(
        graph=maker.graph(loss, loss=loss),
        topology=hosted(8, memory_bytes=16 * GIB, host_bytes=256 * GIB),
        setup=Setup(microbatches=1),
    )
    assert 8 * 16 * GIB < 4 << 36
    assert refused(request).constraint == "memory"
    found = planned(request.model_copy(update={"constraints": offloading("embeddings")}))
    own = {p.tensor: p for p in found.stages[0].parameters}["table"]
    assert own.on_host == ("value", "gradient", "optimizer")
    assert own.host_bytes == (1 << 36) * 16 // 8  # value, gradient and two moments
    assert found.cost.memory_bytes.total < 4 * GIB


def test_of_a_frozen_table_only_the_value_is_there_to_lie_on_hosts():
    maker = GraphMaker(batch=64)
    ids = maker.input("ids", "batch", 16, dtype="int64")
    table = maker.parameter("table", 1 << 20, 64)
    rows = maker.op("embedding", [table, ids], ["batch", 16, 64], "look up")
    out = maker.op("linear", [rows, maker.parameter("w", 64, 64)], ["batch", 16, 64], "deep")
    request = toy_request(
        graph=maker.graph(out),
        topology=hosted(2, 2, memory_bytes=32 << 20),
        setup=Setup(phase="inference"),
        constraints=offloading("auto"),
    )
    found = planned(request)
    own = {p.tensor: p for p in found.stages[0].parameters}["table"]
    assert own.on_host == ("value",)
    assert own.value_bytes == 0
    assert own.host_bytes == (1 << 20) * 64 * 4  # each host has all: nobody has to be asked
    assert evaluate(problem_of(request), found) == found.cost
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"


def test_stages_of_a_pipeline_offload_too():
    maker = GraphMaker("bfloat16", batch=64)
    x = maker.input("x", "batch", 512)
    for k in range(4):
        weight = maker.parameter(f"w{k}", 512, 512)
        x = maker.op("linear", [x, weight], ["batch", 512], f"layer{k}")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [x, label], [], "loss")
    request = toy_request(
        graph=maker.graph(loss, loss=loss),
        topology=hosted(4, memory_bytes=9 << 19),
        setup=Setup(microbatches=4, memory_reserve=0.0),
        constraints=offloading("optimizer"),
        pipeline={"ranks": 2, "schedule": "1f1b"},
    )
    found = plan(request).plan
    assert found is not None
    assert found.cost.memory_bytes.host > 0
    assert found.cost.communication_ns["host"] > 0
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"


def test_offload_without_a_host_is_refused_by_the_name_of_the_topology():
    graph = transformer_mlp(8, rows=8, width=512).graph("loss:out", loss="loss:out")
    request = toy_request(graph=graph, topology=preset("910b-1x8"), constraints=offloading("auto"))
    with pytest.raises(RequestError, match=r"offload auto: the topology '910b-1x8' has no host"):
        check(request)
