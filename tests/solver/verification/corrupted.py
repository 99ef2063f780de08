"""Requests of several kinds whose plans the tests corrupt."""

from __future__ import annotations

from collections.abc import Callable

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.schema import (
    Cache,
    Constraints,
    Degrees,
    OptimizerParallel,
    Pin,
    Pipeline,
    Recompute,
    Request,
    Setup,
)
from tests.solver.layered import layered
from tests.solver.requests import mlp_request, toy_request
from tests.solver.small_graphs import topology

DECODER = Decoder(layers=2, hidden=32, heads=2, vocabulary=64, ffn=64)
MIXTURE = Decoder(
    layers=1, hidden=32, heads=2, vocabulary=64, experts=4, top_k=2, expert_ffn=32
)  # fmt: skip


def one_stage() -> Request:
    return mlp_request(16, topology(2, 2), rows=32, width=256)


def steered() -> Request:
    request = mlp_request(16, topology(2, 2), rows=32, width=64)
    wish = OptimizerParallel(level=1, threshold_kb=0)
    return request.model_copy(
        update={
            "pins": (Pin(op="up", strategy={"n": ("gpu",), "b0": ("node",)}),),
            "constraints": Constraints(optimizer_parallel=wish),
        }
    )


def pipeline() -> Request:
    return toy_request(
        graph=layered(2, tied=True),
        topology=topology(2, 2),
        setup=Setup(microbatches=2),
        pipeline=Pipeline(ranks=2, schedule="zb_h1"),
    )


def virtual_stages() -> Request:
    return toy_request(
        graph=layered(4),
        topology=topology(2, 2),
        setup=Setup(microbatches=4),
        pipeline=Pipeline(ranks=2, schedule="interleaved_1f1b", stages_per_rank=2),
        recompute=Recompute(policy="full"),
    )


def open_pipeline() -> Request:
    return toy_request(
        graph=layered(4, batch=16, width=256),
        topology=topology(2, 2),
        setup=Setup(),
        pipeline=Pipeline(),
        recompute=Recompute(),
    )


def stated() -> Request:
    return toy_request(
        graph=decoder_graph(DECODER, batch=8, seq=16),
        topology=topology(2, 2),
        setup=Setup(microbatches=2),
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
        degrees=Degrees(tp=2, zero=1, sequence_parallel=True),
    )


def target() -> Request:
    return toy_request(
        graph=decoder_graph(DECODER, batch=16, seq=16),
        topology=topology(2, 2),
        setup=Setup(),
        target="megatron-core",
        pipeline=Pipeline(),
        recompute=Recompute(),
    )


def mixture() -> Request:
    return toy_request(
        graph=decoder_graph(MIXTURE, batch=8, seq=16),
        topology=topology(2, 2),
        setup=Setup(microbatches=1),
    )


def inference() -> Request:
    return toy_request(
        graph=decoder_graph(DECODER, batch=8, seq=1),
        topology=topology(2, 2),
        setup=Setup(phase="inference", cache=Cache(context=64)),
    )


REQUESTS: dict[str, Callable[[], Request]] = {
    "one stage": one_stage,
    "pins and a level": steered,
    "a pipeline": pipeline,
    "virtual stages": virtual_stages,
    "everything open": open_pipeline,
    "stated degrees": stated,
    "a target": target,
    "a mixture of experts": mixture,
    "inference": inference,
}
