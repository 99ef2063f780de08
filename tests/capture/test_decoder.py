"""Decoders from their dimensions: equal to what is captured of transformers, op by op."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.capture.decoder import Decoder, LatentAttention, decoder_graph
from meshwright.capture.published_decoders import PUBLISHED
from meshwright.common.files import read_document
from meshwright.schema import Graph, GraphError, Request, Setup
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.sized_graph import check_rules
from meshwright_solver.verification.verify import verify_documents
from tests.solver.small_graphs import topology

GRAPHS = Path(__file__).parents[2] / "examples" / "graphs"
CAPTURED = [name for name in PUBLISHED if (GRAPHS / f"{name}.json.gz").exists()]


def content(graph: Graph) -> list[tuple[object, ...]]:
    """The ops in order, with what they read and make, without names."""
    tensors = {tensor.name: tensor for tensor in graph.tensors}

    def shown(names: tuple[str, ...]) -> list[tuple[object, ...]]:
        found = [tensors[name] for name in names]
        return [(each.dtype, [str(size) for size in each.shape], each.role) for each in found]

    return [
        (op.kind, shown(op.inputs), shown(op.outputs), dict(op.attrs))
        for op in graph.topological_order()
    ]


@pytest.mark.parametrize("name", CAPTURED)
def test_a_decoder_is_the_graph_that_is_captured_of_its_configuration(name: str) -> None:
    captured = read_document(GRAPHS / f"{name}.json.gz", Graph)
    symbols = captured.symbols
    dimensions = PUBLISHED[name].decoder
    written = decoder_graph(dimensions, batch=symbols["batch"], seq=symbols["seq"])
    assert content(written) == content(captured)
    assert written.symbols == symbols


@st.composite
def decoders(draw: st.DrawFn) -> Decoder:
    """Small decoders of every family."""
    heads = draw(st.sampled_from([2, 4]))
    gated = draw(st.booleans())
    experts = draw(st.sampled_from([0, 0, 4, 5])) if gated else 0
    latent = (
        LatentAttention(draw(st.sampled_from([0, 12])), 8, 6, 4, 10)
        if gated and draw(st.integers(0, 3)) == 0
        else None
    )
    return Decoder(
        layers=draw(st.integers(1, 3)),
        hidden=16,
        heads=heads,
        kv_heads=None if latent is not None else draw(st.sampled_from([None, heads // 2])),
        vocabulary=24,
        ffn=32,
        gated=gated,
        tied=draw(st.booleans()),
        experts=experts,
        top_k=2 if experts else 0,
        expert_ffn=12 if experts else 0,
        shared_ffn=draw(st.sampled_from([0, 12])) if experts else 0,
        dense_layers=draw(st.integers(0, 1)) if experts else 0,
        latent=latent,
        unfused=draw(st.booleans()),
    )


@settings(max_examples=24, deadline=None)
@given(decoders(), st.sampled_from([8, 10]))
def test_every_decoder_is_planned_and_its_plan_computes_what_one_device_does(
    decoder: Decoder, seq: int
) -> None:
    graph = decoder_graph(decoder, batch=8, seq=seq, dtype="float32")
    check_rules(graph)
    answer = plan(Request(graph=graph, topology=topology(2, 2), setup=Setup(microbatches=1)))
    assert answer.plan is not None
    certificate = verify_documents(answer.plan, graph, topology(2, 2), Setup(microbatches=1))
    assert certificate.outcome == "verified", certificate


def test_parameters_are_counted_as_published() -> None:
    # DeepSeek-V3, arXiv:2412.19437: 671 billion
    decoder = Decoder(
        layers=61, hidden=7168, heads=128, ffn=18432, vocabulary=129280, experts=256, top_k=8,
        expert_ffn=2048, shared_ffn=2048, dense_layers=3,
        latent=LatentAttention(1536, 512, 128, 64, 128),
    )  # fmt: skip
    graph = decoder_graph(decoder, batch=1, seq=4096)
    count = 0
    for tensor in graph.tensors:
        if tensor.role == "parameter":
            size = 1
            for dim in tensor.shape:
                size *= int(dim)
            count += size
    assert count == pytest.approx(671e9, rel=2e-3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kv_heads": 3}, "kv_heads 3 does not divide heads 4"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"experts": 4, "top_k": 5}, "top_k must be 1 to 4"),
    ],
)
def test_dimensions_that_do_not_fit_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Decoder(**{"layers": 1, "hidden": 16, "heads": 4, "vocabulary": 8, **wrong})
