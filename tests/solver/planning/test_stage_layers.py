"""Stages hold as many layers as is stated, and equally many where nothing is."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.schema import (
    Degrees,
    Graph,
    Pipeline,
    Plan,
    PlanError,
    Request,
    RequestError,
    Setup,
)
from meshwright_solver.pipeline.layers import layer_begins
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.planning.degrees.layer_cuts import equal_cuts
from meshwright_solver.planning.planner import check
from meshwright_solver.planning.stage_layers import with_stage_layers
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology


@st.composite
def decoders(draw: st.DrawFn) -> tuple[Graph, int]:
    """A random decoder, and the number of its layers."""
    heads = draw(st.sampled_from((2, 4)))
    layers = draw(st.integers(4, 24))
    experts = draw(st.sampled_from((0, 0, 4)))
    decoder = Decoder(
        layers=layers,
        hidden=16 * heads,
        heads=heads,
        kv_heads=draw(st.sampled_from((None, 1))),
        vocabulary=draw(st.sampled_from((64, 4096))),
        ffn=64,
        gated=draw(st.booleans()) or experts > 0,
        tied=draw(st.booleans()),
        experts=experts,
        top_k=2 if experts else 0,
        expert_ffn=32 if experts else 0,
        dense_layers=draw(st.integers(0, 2)) if experts else 0,
        unfused=draw(st.booleans()),
    )
    return decoder_graph(decoder, batch=8, seq=16), layers


def layers_of(cuts: tuple[int, ...], begins: list[int]) -> list[int]:
    """The number of layers of every stage, by the positions at which both begin."""
    counts = Counter(bisect_right(cuts, begin) for begin in begins)
    return [counts[stage] for stage in range(len(cuts) + 1)]


@given(decoders())
@settings(max_examples=80)
def test_stages_that_divide_the_layers_have_equally_many(case: tuple[Graph, int]) -> None:
    graph, layers = case
    anatomy = Anatomy(graph)
    begins = layer_begins(anatomy).tolist()
    assert len(begins) == layers
    for stages in (each for each in range(2, layers + 1) if layers % each == 0):
        cuts = equal_cuts(anatomy, Setup(), stages)
        assert layers_of(cuts, begins) == [layers // stages] * stages


@given(decoders(), st.data())
@settings(max_examples=80)
def test_stages_have_the_layers_that_are_stated(
    case: tuple[Graph, int], data: st.DataObject
) -> None:
    graph, layers = case
    places = st.lists(st.integers(1, layers - 1), min_size=1, max_size=5, unique=True)
    edges = [0, *sorted(data.draw(places)), layers]
    counts = [stop - start for start, stop in pairwise(edges)]
    request = toy_request(
        graph=graph,
        topology=topology(len(counts), 2),
        pipeline=Pipeline(ranks=len(counts), layers=tuple(counts)),
    )
    anatomy = Anatomy(graph)
    cuts = tuple(anatomy.place[name] for name in with_stage_layers(request).pipeline.cuts)
    assert layers_of(cuts, layer_begins(anatomy).tolist()) == counts


def uneven(*layers: int | None, **more: object) -> Request:
    return toy_request(
        graph=layered(6),
        topology=topology(len(layers), 2),
        setup=Setup(microbatches=4),
        pipeline=Pipeline(ranks=len(layers), layers=layers),
        **more,
    )


def stages_of(plan: Plan) -> list[int]:
    return [sum(op.op.endswith(".linear") for op in stage.ops) for stage in plan.stages]


@pytest.mark.parametrize(
    ("stated", "layers"),
    [((1, 5), [1, 5]), ((None, 4), [2, 4]), ((1, None, None, 1), [1, 2, 2, 1])],
)
@pytest.mark.parametrize("degrees", [None, Degrees(tp=2)])
def test_a_plan_keeps_the_layers_of_its_stages(
    stated: tuple[int | None, ...], layers: list[int], degrees: Degrees | None
) -> None:
    request = uneven(*stated, degrees=degrees)
    plan = planned(request)
    assert stages_of(plan) == layers
    assert plan.wishes.pipeline.layers == stated
    documents = request.graph, request.topology, request.setup
    assert verify_documents(plan, *documents).outcome == "verified"
    others = Pipeline(ranks=len(stated), layers=tuple(reversed(stated)))
    if others != request.pipeline:
        forged = plan.model_copy(
            update={"wishes": plan.wishes.model_copy(update={"pipeline": others})}
        )
        with pytest.raises(PlanError, match=r"pipeline\.cuts"):
            verify_documents(forged, *documents)


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        ((3, 4), "the stages have 7 layers, the graph has 6"),
        ((5, None, None), "1 of 6 layers are left for 2 stages"),
        ((3, None, None), "3 of 6 layers are left for 2 stages, which cannot have equally many"),
    ],
)
def test_layers_that_do_not_add_up_are_refused(stated: tuple[int | None, ...], why: str) -> None:
    with pytest.raises(RequestError, match=why):
        check(uneven(*stated))


def test_cuts_and_layers_state_the_same() -> None:
    with pytest.raises(RequestError, match="cuts and layers"):
        Pipeline(ranks=2, cuts=("a",), layers=(1, 2))
    with pytest.raises(RequestError, match="need a number of pipeline ranks"):
        Pipeline(layers=(1, 2))
    with pytest.raises(RequestError, match="2 stages need 2 numbers of layers, got 3"):
        Pipeline(ranks=2, layers=(1, 2, 3))
