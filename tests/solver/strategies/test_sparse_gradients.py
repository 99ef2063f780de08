"""Sparse gradients: hand-worked numbers, PyTorch's own, brute force, plans that are executed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from meshwright.schema import (
    Axis,
    Budget,
    Constraints,
    Dim,
    Layout,
    Mesh,
    MeshAxis,
    PlanError,
    Request,
    Setup,
    SubDim,
)
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.evaluation.evaluate import cost_of_all, evaluate
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.values import find_values
from meshwright_solver.simulation.summary import simulate_documents
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.offload import ROWS
from meshwright_solver.strategies.optimizer_sharding import OptimizerSharding
from meshwright_solver.verification.execution.collectives import StepError, run_step
from meshwright_solver.verification.verify import verify, verify_documents
from tests.solver.planning.test_enumeration import all_assignments
from tests.solver.requests import planned, problem_of, toy_request
from tests.solver.small_graphs import GraphMaker, one_level_mesh, problem, topology

BATCH, FIELDS, TABLE_ROWS, WIDTH = 64, 4, 4096, 8
ALLOWED = Constraints(sparse_gradients=("*",))


def lookup(batch: int = BATCH, rows: int = TABLE_ROWS, width: int = WIDTH) -> GraphMaker:
    """Fields of a table through a product to a loss."""
    maker = GraphMaker(batch=batch)
    ids = maker.input("ids", "batch", FIELDS, dtype="int64")
    own = maker.op(
        "embedding", [maker.parameter("table", rows, width), ids], ["batch", FIELDS, width], "it"
    )
    shape = ["batch", FIELDS, 16]
    out = maker.op("linear", [own, maker.parameter("w", 16, width)], shape, "deep")
    maker.op("mean", [out], [], "loss", attrs={"dims": [0, 1, 2], "keepdim": False})
    return maker


def table(microbatches: int = 1):
    """The table's model on one axis of two devices, and the op that looks it up."""
    _, mesh = one_level_mesh(2)
    graph = lookup().graph("loss:out", loss="loss:out")
    built = problem(graph, topology(2), Setup(microbatches=microbatches))
    models = Models(
        built, find_values(built), mesh, at_rest=OptimizerSharding(sparse=frozenset(["it"]))
    )
    return models.parameter(models.values.value_of["table"]), models.ops.model(0)


def test_rows_of_all_replicas_are_gathered_once_a_step() -> None:
    model, _ = table(microbatches=2)
    n = model.space.slots
    lookups = 32 * FIELDS / 2  # of a microbatch, on each of two devices that share the batch
    needed, elements = np.array([[n + 2]]), np.array([lookups * WIDTH])
    rows = model.row_gradients(needed, elements)
    # an int64 and eight float32 for each
    assert rows.made_bytes[0] == lookups * (8 + WIDTH * 4)
    assert rows.held_bytes[0] == 2 * 2 * rows.made_bytes[0]  # two microbatches, two devices
    # the wire of 1e10 bytes/s carries half of what is gathered, at 0.8 of its speed; two steps
    moved_ns = rows.held_bytes[0] / 2 / (1e10 * 0.8) * 1e9
    assert rows.gather_ns[0] == pytest.approx(2 * 1000 + moved_ns)


def test_an_update_touches_the_rows_and_never_more_than_all() -> None:
    model, _ = table()
    n = model.space.slots
    states = np.array([[n]]) + model.space.base * ROWS
    few = model.row_gradients(np.array([[n]]), np.array([10.0 * WIDTH]))
    assert few.gather_ns[0] == 0  # the lookup is repeated: both have the same rows
    dense_ns = model.update_ns(np.array([[n]]))[0]
    per_element = dense_ns / (TABLE_ROWS * WIDTH)
    assert model.row_update_ns(states, few)[0, 0] == pytest.approx(10 * WIDTH * per_element)
    most = model.row_gradients(np.array([[n]]), np.array([10.0 * TABLE_ROWS * WIDTH]))
    assert model.row_update_ns(states, most)[0, 0] == pytest.approx(dense_ns)
    assert model.update_ns(states)[0] == 0


def test_an_id_has_its_part_of_a_row_where_columns_are_cut() -> None:
    model, _ = table()
    columns = next(k for k in range(model.space.slots) if k not in model.rows.slots)
    lookups = BATCH * FIELDS
    rows = model.row_gradients(np.array([[columns]]), np.array([lookups * WIDTH / 2]))
    assert rows.made_bytes[0] == lookups * (8 + WIDTH / 2 * 4)


# --- PyTorch -------------------------------------------------------------------------------------


def looked_up_by_torch(ids: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor):
    own = weight.clone().requires_grad_()
    (functional.embedding(ids, own, sparse=True) * scale).sum().backward()
    return own, own.grad


def test_torch_keeps_as_many_bytes_and_gathered_rows_are_the_whole_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 50, (BATCH, FIELDS), generator=generator)
    scale = torch.randn(BATCH, FIELDS, WIDTH, generator=generator)
    weight = torch.randn(TABLE_ROWS, WIDTH, generator=generator)
    halves = [slice(0, BATCH // 2), slice(BATCH // 2, BATCH)]
    found = [looked_up_by_torch(ids[half], weight, scale[half])[1] for half in halves]
    model, _ = table()
    n = model.space.slots
    rows = model.row_gradients(np.array([[n + 2]]), np.array([BATCH * FIELDS / 2 * WIDTH]))
    for own in found:
        held = own._indices().nbytes + own._values().nbytes
        assert held == rows.made_bytes[0]
    together = torch.sparse_coo_tensor(
        torch.cat([own._indices() for own in found], dim=1),
        torch.cat([own._values() for own in found]),
        weight.shape,
        check_invariants=True,
    )
    dense = weight.clone().requires_grad_()
    (functional.embedding(ids, dense) * scale).sum().backward()
    torch.testing.assert_close(together.to_dense(), dense.grad)


def test_sparse_adam_leaves_alone_what_nobody_looked_up() -> None:
    ids = torch.tensor([[3, 5, 3, 9]])
    own, _ = looked_up_by_torch(ids, torch.ones(TABLE_ROWS, WIDTH), torch.tensor(1.0))
    torch.optim.SparseAdam([own], lr=0.1).step()
    changed = (own != 1).any(dim=1).nonzero().flatten().tolist()
    assert changed == [3, 5, 9]


# --- brute force ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [8192, 2])
def test_the_plan_is_the_best_of_all_assignments_under_every_memory_limit(rows: int) -> None:
    """Rows are the cheaper of a large table, and dense gradients of a small one."""
    maker = GraphMaker()
    ids = maker.input("ids", 6, dtype="int64")
    maker.op("embedding", [maker.parameter("table", rows, 2), ids], [6, 2], "it")
    graph = maker.graph("it:out")

    def request(memory_bytes: int) -> Request:
        return toy_request(
            graph=graph,
            topology=topology(2, memory_bytes=memory_bytes, latency_ns=100),
            setup=Setup(microbatches=1, memory_reserve=0.0),
            budget=Budget(max_axes=1),
            constraints=ALLOWED,
        )

    roomy = request(1 << 40)
    everything = []
    built = problem(graph, roomy.topology, roomy.setup)
    for mesh in meshes(roomy.topology, 1):
        models = Models(
            built, find_values(built), mesh, at_rest=OptimizerSharding(sparse=frozenset(["it"]))
        )
        for assignment in all_assignments(models):
            is_sparse = max(assignment.parameters["table"]) >= models.ops.space("table").base
            try:
                cost = cost_of_all(models, assignment)
            except PlanError:  # layouts that do not meet
                continue
            everything.append((cost.objective_ns, cost.memory_bytes.total, is_sparse))
    assert {is_sparse for *_, is_sparse in everything} == {True, False}
    best, _, is_sparse = min(everything)
    assert is_sparse == (rows > 2)
    found = planned(roomy)
    assert found.cost.objective_ns == pytest.approx(best, rel=1e-9)
    assert found.stages[0].parameters[0].sparse_gradient == is_sparse
    memories = sorted({memory for _, memory, _ in everything})
    # of the very least, what passes by can be missed: a search knows sums alone
    for limit in (memories[1], memories[len(memories) // 3], memories[2 * len(memories) // 3]):
        best = min(cost for cost, memory, _ in everything if memory <= limit)
        answer = plan(request(limit)).plan
        assert answer is not None
        assert best * (1 - 1e-9) <= answer.cost.objective_ns <= best * (1 + 2 * TOLERANCE)
        assert answer.search.lower_bound_ns <= best * (1 + 1e-9)


# --- plans ---------------------------------------------------------------------------------------


def wide(constraints: Constraints = ALLOWED, **setup: int) -> Request:
    return toy_request(
        graph=lookup(rows=1 << 16).graph("loss:out", loss="loss:out"),
        topology=topology(2, 2),
        setup=Setup(**{"microbatches": 1, **setup}),
        constraints=constraints,
        pins=({"op": "it", "strategy": {"b0": ["node", "gpu"]}},),
    )


@pytest.mark.parametrize("setup", [{}, {"microbatches": 4}, {"microbatches": 4, "copies": 2}])
def test_plans_say_so_are_judged_alike_and_right(setup: dict[str, int]) -> None:
    request = wide(**setup)
    found = planned(request)
    own = next(own for own in found.stages[0].parameters if own.tensor == "table")
    assert own.sparse_gradient
    assert own.gradient_bytes == BATCH * FIELDS * (8 + WIDTH * 4)
    (moved,) = [own for own in found.stages[0].redistributions if own.tensor == "table"]
    (step,) = moved.per_step
    assert (step.kind, step.payload_bytes) == ("sparse_all_reduce", own.gradient_bytes)
    assert any(note.startswith("sparse gradients of table:") for note in found.notes)
    dense = planned(wide(Constraints(), **setup))
    assert found.cost.objective_ns < dense.cost.objective_ns
    assert found.cost.memory_bytes.gradients < dense.cost.memory_bytes.gradients
    assert evaluate(problem_of(request), found) == found.cost
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"
    simulated = simulate_documents(found, request.graph, request.topology, request.setup)
    assert simulated.step_ns == pytest.approx(found.cost.step_ns, rel=0.03)


@pytest.mark.parametrize("solver", ["exact", "recursive_programming", "semi_auto"])
def test_every_search_may_choose_it(solver: str) -> None:
    found = planned(wide().model_copy(update={"solver": solver, "pins": ()}))
    assert any(own.sparse_gradient for own in found.stages[0].parameters)


def test_a_plan_that_gathers_no_rows_is_no_right_one() -> None:
    request = wide()
    found = planned(request)
    stage = found.stages[0]
    moved = tuple(
        own.model_copy(update={"per_step": ()}) if own.tensor == "table" else own
        for own in stage.redistributions
    )
    wrong = found.model_copy(
        update={"stages": (stage.model_copy(update={"redistributions": moved}),)}
    )
    certificate = verify(problem_of(request), wrong)
    assert certificate.outcome == "failed"


def test_no_other_parameter_can_have_a_sparse_gradient() -> None:
    request = wide()
    found = planned(request)
    stage = found.stages[0]
    parameters = tuple(own.model_copy(update={"sparse_gradient": True}) for own in stage.parameters)
    wrong = found.model_copy(
        update={"stages": (stage.model_copy(update={"parameters": parameters}),)}
    )
    with pytest.raises(PlanError, match="cannot have a sparse gradient"):
        evaluate(problem_of(request), wrong)


def test_rows_are_added_where_their_ids_say() -> None:
    mesh = Mesh(axes=tuple(MeshAxis(name=Axis(n), size=2, level="gpu") for n in ("a", "b")))

    def layout(axes: tuple[str, ...] = (), **partial: str) -> Layout:
        return Layout(
            dims=(Dim(parts=(SubDim(size=4, axes=axes),)), Dim(parts=(SubDim(size=3),))),  # type: ignore[arg-type]
            partial=partial,  # type: ignore[arg-type]
        )

    whole = np.zeros((4, 4, 3))
    whole[[0, 1, 2, 3], [1, 3, 3, 1]] = np.arange(1.0, 13).reshape(4, 3)
    before, after = layout(a="sum", b="sum"), layout()
    shards = run_step("sparse_all_reduce", ("a", "b"), list(whole), before, after, mesh)
    for own in shards:
        np.testing.assert_array_equal(own, whole.sum(axis=0))
    with pytest.raises(StepError, match="changes axis 'a' too"):
        run_step("sparse_all_reduce", ("b",), list(whole), before, after, mesh)


def test_rows_lie_as_the_table_does() -> None:
    model, _ = table()
    n = model.space.slots
    needed = np.array([[0], [n], [n + 2]])
    legal = ~model.not_in_rows(np.array([[0], [n]]) + model.space.base * ROWS, needed)
    assert legal.tolist() == [[True, False, False], [False, True, True]]
    assert replace(model, rows=None).states.max() < model.space.base
