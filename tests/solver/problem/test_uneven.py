"""Sizes that axes do not divide: spans by hand and by brute force, plans on odd device counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import (
    Budget,
    Graph,
    Layout,
    Pin,
    Plan,
    PlanError,
    Request,
    Setup,
    Stage,
    Topology,
)
from meshwright_costmodel.presets import preset
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.uneven import MOST_STRETCH, span_of
from meshwright_solver.verification.verify import verify, verify_documents
from tests.one_stage import one_stage_request
from tests.solver.random_problems import Case, cases
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, models, problem, topology
from tests.solver.uneven_graphs import convolutions, experts, gpt

SLOW_DEVICES = {"latency_ns": 10, "flops_per_s": 1e11}  # on which it pays to shard small graphs


def planned(
    graph: Graph, devices: Topology, uneven: str, *pins: Pin, microbatches: int = 1, axes: int = 3
) -> Plan:
    setup = Setup.from_dict({"uneven": uneven, "microbatches": microbatches})
    request = toy_request(
        graph=graph, topology=devices, setup=setup, pins=pins, budget=Budget(max_axes=axes)
    )
    return solved(request)


def real(uneven: str) -> Plan:
    """Of a published model on a cluster that can be bought."""
    setup = Setup.from_dict({"uneven": uneven, "microbatches": 1})
    return solved(one_stage_request(graph=gpt(), topology=preset("h100-8x8"), setup=setup))


def solved(request: Request) -> Plan:
    answer = plan(request).plan
    assert answer is not None
    return answer


def layouts(stage: Stage) -> list[Layout]:
    """Every layout that a stage names."""
    pairs = [pair for t in stage.tensors for pair in (t.rest, t.read) if pair is not None]
    found = [own for pair in pairs for own in (pair.value, pair.gradient)]
    found += [own for p in stage.parameters for own in (p.value, p.gradient, p.optimizer)]
    found += [
        step.to
        for moved in stage.redistributions
        for step in (*moved.forward, *moved.backward, *moved.per_step)
    ]
    return [own for own in found if own is not None]


def spans(found: Plan) -> set[tuple[int, int]]:
    return {
        (part.size, part.span)
        for layout in layouts(found.stages[0])
        for dim in layout.dims
        for part in dim.parts
        if part.span is not None
    }


# --- spans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "axes", "span"),
    [
        (50257, (8, 8), 50304),  # 64 * 786
        (50257, (4, 2, 8), 50304),  # the same devices
        (64, (3, 4), 72),  # 12 * 6 = 64 * 1.125, no more
        (64, (3, 8), 72),  # over all 24, though 8 of them divide it
        (7, (2, 4), 7),  # 8 is a seventh more
        (15, (2, 4), 16),
        (32, (4, 3, 8), 32),  # over 4 * 8 evenly; 36 over 12 would use fewer devices
        (11, (3, 2, 2), 12),  # of chunks of one, the last is empty
        (8, (1, 1), 8),
    ],
)
def test_the_span_is_the_size_rounded_up_for_the_most_devices(size, axes, span):
    assert span_of(size, axes) == span


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 300), st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_no_other_product_of_axes_has_more_devices_and_a_span_that_short(size, axes):
    groups = [g for n in range(len(axes) + 1) for g in itertools.combinations(axes, n)]
    fits = {
        math.prod(g): math.ceil(size / math.prod(g)) * math.prod(g)
        for g in groups
        if math.ceil(size / math.prod(g)) * math.prod(g) <= size * MOST_STRETCH
    }
    assert span_of(size, tuple(axes)) == fits[max(fits)]
    assert span_of(size, tuple(reversed(axes))) == span_of(size, tuple(axes))


def test_what_has_a_halo_a_stride_or_segments_has_to_divide():
    make = GraphMaker()
    x = make.input("x", 15, 3, 15, 15)
    w = make.parameter("w", 15, 3, 3, 3)
    h = make.op("conv", [x, w], [15, 15, 15, 15], "conv", attrs={"padding": [1, 1]})
    flat = make.op("reshape", [h], [15, 15 * 225], "flat")
    fused = make.op("linear", [flat, make.parameter("u", 30 + 15, 3375)], [15, 45], "fused")
    make.split(fused, [[15, 30], [15, 15]], 1, "parts")
    built = problem(make.graph("parts:0", "parts:1"), topology(4), Setup(uneven="chunk"))

    def span(tensor: str, dim: int) -> set[int | None]:
        slots = built.tensors[tensor].slots
        found = [k for k, slot in enumerate(slots) if slot.dim == dim]
        return {built.uneven.span((tensor, k), (4,)) for k in found}

    assert span("conv:out", 0) == {16}  # the batch
    assert span("conv:out", 1) == {16}  # the channels
    assert span("conv:out", 2) == span("conv:out", 3) == {None}  # a halo
    assert span("fused:out", 0) == {16}
    assert span("fused:out", 1) == {None}  # segments, and the rows of u that make them
    assert span("u", 0) == {None}


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_part_and_all_slots_that_are_its_index_have_one_span(case: Case):
    built, sizes = case.models.problem, case.models.ops.axis_sizes
    for position, op in enumerate(built.ops):
        for port in (*op.inputs, *op.outputs):
            for part, slot in port.slot_of.items():
                ours = built.uneven.span((position, part), sizes)
                assert ours == built.uneven.span((port.tensor, slot), sizes)


# --- what they cost ------------------------------------------------------------------------------


def rows(count: int) -> Graph:
    make = GraphMaker()
    x = make.op("gelu", [make.parameter("p", count, 64)], [count, 64], "act")
    return make.graph(make.op("linear", [x, make.parameter("w", 64, 64)], [count, 64], "it"))


def test_an_op_takes_as_long_as_its_longest_chunk_and_devices_hold_as_much():
    # 30 rows over 4 devices lie as 8, 8, 8, 6: as long as a quarter of 32
    uneven, even = (models(rows(n), (4,), Setup(uneven="chunk")) for n in (30, 32))
    split = np.array([[0]])
    for position in (0, 1):
        a, b = uneven.ops.model(position), even.ops.model(position)
        assert uneven.compute_ns(a, split) == pytest.approx(even.compute_ns(b, split))
        assert a.workers(split) == 4
    held = [found.ops.space("p").local_bytes(split)[0] for found in (uneven, even)]
    assert held == [8 * 64 * 4, 8 * 64 * 4]
    refused = models(rows(30), (4,))
    assert split.tolist() not in refused.ops.model(0).choices[:, None].tolist()


def test_short_chunks_are_no_repeated_work():
    rows_split = (Pin(op="act", strategy={"d0": ("gpu",)}), Pin(op="it", strategy={"b0": ("gpu",)}))
    assert planned(rows(30), topology(4), "chunk", *rows_split).repeated_work == 0.0


# --- plans ---------------------------------------------------------------------------------------


def test_a_vocabulary_of_50257_is_padded_to_50304_on_64_devices():
    found = real("pad")
    assert ("wte", 0, 50257, 50304) in {(p.tensor, p.dim, p.size, p.padded) for p in found.padding}
    (table,) = (p for p in found.stages[0].parameters if p.tensor == "wte")
    assert table.optimizer is not None
    assert table.optimizer.padded
    assert table.optimizer_bytes % (50304 // 64) == 0
    setup = Setup(uneven="pad", microbatches=1)
    assert verify_documents(found, gpt(), preset("h100-8x8"), setup).outcome == "verified"


def test_chunks_are_not_padded_and_refused_sizes_lie_whole():
    chunked = real("chunk")
    assert (50257, 50304) in spans(chunked)
    assert chunked.padding == ()
    assert not any(layout.padded for layout in layouts(chunked.stages[0]))
    refused = real("refuse")
    assert spans(refused) == set()
    assert refused.cost.step_ns > chunked.cost.step_ns


def test_an_input_is_padded_where_its_readers_cut_it():
    everywhere = {"b0": ("node", "gpu")}
    pins = (Pin(op="embed", strategy=everywhere), Pin(op="loss", strategy=everywhere))
    found = planned(gpt(batch=60), topology(2, 8), "pad", *pins)
    sizes = {(p.tensor, p.dim): (p.size, p.padded) for p in found.padding}
    assert sizes["ids", 0] == sizes["labels", 0] == (60, 64)


def test_a_note_says_that_uneven_chunks_would_use_an_idle_axis():
    devices = topology(5, 2, **SLOW_DEVICES)
    (note,) = planned(gpt(), devices, "refuse").notes
    assert "axis 'node' of size 5 shards 0%" in note
    assert "uneven: chunk" in note
    chunked = planned(gpt(), devices, "chunk")
    assert chunked.notes == ()
    assert chunked.repeated_work < 0.01


def test_a_pin_that_does_not_divide_says_what_would_do():
    pins = (Pin(op="it", strategy={"b0": ("gpu",)}),)
    setup = Setup(microbatches=1)
    answer = plan(toy_request(graph=rows(30), topology=topology(4), setup=setup, pins=pins))
    assert answer.infeasible is not None
    assert "uneven: chunk" in answer.infeasible.detail
    assert planned(rows(30), topology(4), "chunk", *pins).stages[0].uneven == "chunk"


def test_uneven_chunks_are_used_only_where_they_are_faster():
    # 64 over 3 x 4 devices has the span 72: over 4 alone 18 rows each instead of 16
    pins = (
        Pin(op="act", strategy={"d0": ("gpu",)}),
        Pin(op="it", strategy={"b0": ("gpu",)}),
    )
    devices = topology(3, 4, **SLOW_DEVICES)
    refused, allowed = (planned(rows(64), devices, how, *pins) for how in ("refuse", "chunk"))
    assert allowed.stages[0].uneven == "refuse"
    assert allowed.cost == refused.cost
    setup = Setup(uneven="chunk", microbatches=1)
    assert evaluate(problem(rows(64), devices, setup), allowed) == allowed.cost


def test_a_plan_that_pads_does_not_fit_a_setup_that_refuses():
    devices, setup = topology(4), Setup(uneven="chunk", microbatches=1)
    found = planned(rows(30), devices, "chunk", Pin(op="it", strategy={"b0": ("gpu",)}))
    stage = found.stages[0].model_copy(update={"uneven": "pad"})
    with pytest.raises(PlanError, match="uneven pad, but the setup chunk"):
        evaluate(problem(rows(30), devices, setup), found.model_copy(update={"stages": (stage,)}))


MODELS = {"gpt": gpt, "experts": experts, "convolutions": convolutions}
COUNTS = [(3, 2), (3, 4), (3, 8), (5, 8), (12, 8)]


@pytest.mark.rotating
@pytest.mark.parametrize("levels", COUNTS, ids=lambda own: str(math.prod(own)))
@pytest.mark.parametrize("name", MODELS)
def test_plans_for_odd_device_counts_are_priced_alike_and_proved(name, levels):
    graph, devices = MODELS[name](), topology(*levels, **SLOW_DEVICES)
    costs = {"refuse": planned(graph, devices, "refuse").cost.objective_ns}
    for how in ("chunk", "pad"):
        found = planned(graph, devices, how)
        setup = Setup.from_dict({"uneven": how, "microbatches": 1})
        # the price is evaluate's, or verify_documents raises
        certificate = verify_documents(found, graph, devices, setup)
        assert certificate.outcome == "verified", certificate.detail
        assert found.stages[0].mesh.device_count == math.prod(levels)
        costs[how] = found.cost.objective_ns
    assert costs["pad"] == costs["chunk"] <= costs["refuse"] * (1 + 1e-3)


@pytest.mark.parametrize("how", ["chunk", "pad"])
@pytest.mark.parametrize("factor", ["e", "n"])
def test_experts_in_uneven_chunks_equal_the_unsharded_run(factor, how):
    pins = (Pin(op="up", strategy={factor: ("gpu",)}),)
    devices, setup = topology(2, 8), Setup.from_dict({"uneven": how, "microbatches": 1})
    found = planned(experts(width=31), devices, how, *pins)
    assert {"e": (15, 16), "n": (62, 64)}[factor] in spans(found)
    certificate = verify_documents(found, experts(width=31), devices, setup)
    assert certificate.outcome == "verified", certificate.detail


# --- damaged plans -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["chunk", "pad"])
def test_damaged_steps_of_uneven_plans_are_caught(how):
    pins = (
        Pin(op="up", strategy={"n": ("gpu",), "b0": ("node",)}),
        Pin(op="down", strategy={"k": ("gpu",), "b0": ("node",)}),
        Pin(op="loss", strategy={"v": ("node", "gpu")}),
    )
    devices, graph = topology(2, 2), gpt(batch=15, width=24, heads=4, vocabulary=255)
    found = planned(graph, devices, how, *pins, axes=2)
    assert {(15, 16), (255, 256)} <= spans(found)
    built = problem(graph, devices, Setup.from_dict({"uneven": how, "microbatches": 1}))
    assert verify(built, found).outcome == "verified"
    stage = found.stages[0]
    caught = 0
    for place, moved in enumerate(stage.redistributions):
        for half in ("forward", "backward", "per_step"):
            steps = getattr(moved, half)
            for k, step in enumerate(steps):
                other = tuple(name for name in stage.mesh.names if name not in step.axes)
                for changed in ((), (step.model_copy(update={"axes": other or ("node",)}),)):
                    own = moved.model_copy(update={half: (*steps[:k], *changed, *steps[k + 1 :])})
                    rest = stage.redistributions
                    damaged = stage.model_copy(
                        update={"redistributions": (*rest[:place], own, *rest[place + 1 :])}
                    )
                    plan_ = found.model_copy(update={"stages": (damaged,)})
                    assert verify(built, plan_).outcome == "failed", (moved, step)
                    caught += 1
    assert caught > 20
