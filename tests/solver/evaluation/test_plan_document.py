"""Plan documents: every step says where it leads, and lists carry through to the end."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema import Budget, Layout, Mesh, Pin, Plan, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.random_problems import Case, cases, plan_of, random_choice
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, topology

RANKS_DIFFER = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute"}


def local_size(layout: Layout, mesh: Mesh) -> int:
    size = 1
    for extent in layout.local_shape(mesh):
        size *= extent
    return size


@settings(max_examples=80, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_steps_lead_from_the_layout_at_rest_to_the_one_that_is_read(case: Case, seed: int):
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None)
    stage = plan_of(case, choice).stages[0]
    rest = {tensor.tensor: tensor for tensor in stage.tensors}
    for moved in stage.redistributions:
        for step in (*moved.forward, *moved.backward, *moved.per_step):
            assert set(step.axes) <= set(stage.mesh.names)
            assert step.to.local_shape(stage.mesh)  # divides everywhere
            assert (step.payload_bytes > 0) == (step.kind in RANKS_DIFFER)
        if moved.traffic != "activation" or moved.op is not None:
            continue
        tensor = rest[moved.tensor]
        assert tensor.read is not None
        if moved.forward:
            assert moved.forward[-1].to == tensor.read.value
        if moved.backward:
            assert moved.backward[-1].to == tensor.rest.gradient


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_a_step_takes_its_input_and_its_output_and_an_all_reduce_only_one(case: Case, seed: int):
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None)
    stage = plan_of(case, choice).stages[0]
    rest = {tensor.tensor: tensor for tensor in stage.tensors}
    for moved in stage.redistributions:
        if moved.traffic != "activation" or moved.op is not None:
            continue
        own = rest[moved.tensor]
        assert own.read is not None
        starts = own.rest.value, own.read.gradient
        largest = 0
        for at, steps in zip(starts, (moved.forward, moved.backward), strict=True):
            for step in steps:
                assert at is not None
                held = local_size(at, stage.mesh) if step.kind != "all_reduce" else 0
                assert step.peak_bytes == 4 * (held + local_size(step.to, stage.mesh))
                largest = max(largest, step.peak_bytes)
                at = step.to
        assert moved.largest_step_bytes == largest > 0


@settings(max_examples=80, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_bytes_of_parameters_are_those_of_their_layouts(case: Case, seed: int):
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None)
    found = plan_of(case, choice)
    mesh = found.stages[0].mesh
    for own in found.stages[0].parameters:
        assert own.value_bytes == 4 * local_size(own.value, mesh)
        if own.gradient is None:
            assert own.optimizer is None
            assert own.gradient_bytes == own.optimizer_bytes == 0
            continue
        each = 2 if case.models.problem.setup.gradient_dtype == "bfloat16" else 4
        assert own.gradient_bytes == each * local_size(own.gradient, mesh)
        assert own.optimizer is not None
        assert own.optimizer_bytes == 8 * local_size(own.optimizer, mesh)  # two fp32 moments
    held = found.cost.memory_bytes
    assert held.parameters == sum(own.value_bytes for own in found.stages[0].parameters)


def shared_table() -> Plan:
    """A table that is read twice: looked up, and multiplied with."""
    maker = GraphMaker("bfloat16", batch=64)
    table = maker.parameter("table", 4096, 64)
    ids = maker.input("ids", "batch", dtype="int64")
    x = maker.op("embedding", [table, ids], ["batch", 64], "look")
    y = maker.op("linear", [x, table], ["batch", 4096], "head")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    maker.op("cross_entropy", [y, label], [], "loss")
    answer = plan(
        toy_request(
            graph=maker.graph("loss:out", loss="loss:out"),
            topology=topology(4, memory_bytes=2 << 20),
            setup=Setup(microbatches=1),
        )
    )
    assert answer.plan is not None
    return answer.plan


def test_a_shared_parameter_is_gathered_once_for_all_of_its_readers():
    found = shared_table()
    (table,) = found.stages[0].parameters
    assert table.optimizer is not None
    assert table.optimizer_bytes < 4096 * 64 * 12
    moved = [r for r in found.stages[0].redistributions if r.tensor == "table"]
    listed = sum(r.ns for r in moved if r.traffic == "parameter")
    assert listed == pytest.approx(found.cost.communication_ns["parameter"])


def test_an_op_of_unknown_kind_runs_whole_and_is_listed():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 64, 64)], [64, 64], "known")
    maker.op("zzz", [x], [64, 64], "unheard")
    maker.op("zzz", [x], [64, 64], "described", rule="a b -> a b")
    answer = plan(
        toy_request(
            graph=maker.graph("unheard:out", "described:out"),
            topology=topology(4),
            pins=(Pin(op="described", strategy={"a": ("gpu",)}),),
            budget=Budget(max_axes=1),
        )
    )
    assert answer.plan is not None
    ops = {op.op: op for op in answer.plan.stages[0].ops}
    assert answer.plan.unknown_kinds == ("zzz",)
    assert (ops["unheard"].rule, ops["unheard"].strategy) == (None, {})
    assert ops["described"].rule == "a b -> a b"
    assert ops["described"].strategy == {"a": ("gpu",)}
