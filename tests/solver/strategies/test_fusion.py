"""Fusion: shares of a latency by mode, and which tensors share a bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from meshwright.cli.wishes import setup_of
from meshwright.schema import (
    Cost,
    Fusion,
    InvalidInput,
    Plan,
    Request,
    RequestError,
    Setup,
    SetupError,
)
from meshwright.schema.fusion import CollectiveFusion
from meshwright_costmodel.collectives import Interconnect, collective_ns
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.folding.fold import fold
from meshwright_solver.strategies.fusion import BUCKET_BYTES, buckets_of, latency_shares
from tests.solver.requests import planned, problem_of, toy_request
from tests.solver.small_graphs import GraphMaker, one_level_mesh, toy_calibration

MIB = 1 << 20
LAYERS = 6


def fusion(**kinds: dict[str, Any]) -> Fusion:
    return Fusion.model_validate(kinds)


def size(mib: int) -> dict[str, Any]:
    return {"mode": "size", "size_mb": mib}


ALONE = {"reduce_scatter": size(0), "all_gather": size(0)}  # dearer than all-reduces


def shares(own: Fusion, size_bytes: int, *, alone: bool = False, gradients: int = 0):
    return dict(latency_shares(own, size_bytes, is_alone=alone, gradients=gradients))


def test_auto_is_a_share_of_a_bucket_or_all():
    found = shares(Fusion(), BUCKET_BYTES // 5)
    assert found["all_reduce"] == found["all_gather"] == found["all_to_all"] == 0.2
    assert shares(Fusion(), 3 * BUCKET_BYTES)["reduce_scatter"] == 1
    assert set(shares(Fusion(), 100, alone=True).values()) == {1.0}


def test_sizes_are_by_collective():
    own = fusion(all_gather=size(64), all_reduce=size(0))
    found = shares(own, 16 * MIB, alone=True)
    assert found["all_gather"] == 0.25
    assert found["all_reduce"] == 1  # none
    assert found["reduce_scatter"] == 1  # auto, and alone


def test_all_groups_together_pay_one_latency_each():
    own = fusion(all_reduce={"mode": "index", "index": (20, 35)})
    assert shares(own, 4, gradients=60)["all_reduce"] * 60 == pytest.approx(3)
    assert shares(own, 4, gradients=30)["all_reduce"] * 30 == pytest.approx(2)  # none behind 35
    assert shares(own, 4, gradients=20)["all_reduce"] * 20 == pytest.approx(1)


def test_a_fused_collective_pays_its_share_of_the_latency_and_all_its_bytes():
    whole = Interconnect.of(one_level_mesh(8)[0], toy_calibration())
    fused = replace(whole, fused=(("all_reduce", 0.25),))
    none, some = (collective_ns("all_reduce", (8,), payload_bytes=0.0, interconnect=own)
                  for own in (whole, fused))  # fmt: skip
    assert some == none / 4
    per_byte = [collective_ns("all_reduce", (8,), payload_bytes=1e9, interconnect=own) - start
                for own, start in ((whole, none), (fused, some))]  # fmt: skip
    assert per_byte[0] == pytest.approx(per_byte[1])
    other = [collective_ns("all_gather", (8,), payload_bytes=1e6, interconnect=own)
             for own in (whole, fused)]  # fmt: skip
    assert other[0] == other[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "size"},
        {"mode": "auto", "size_mb": 4},
        {"mode": "index"},
        {"mode": "index", "index": (3, 3)},
        {"mode": "index", "index": (0, 3)},
        {"mode": "size", "size_mb": 4, "index": (3,)},
    ],
)
def test_what_a_mode_does_not_mean_is_refused(wrong: dict[str, Any]):
    with pytest.raises((SetupError, InvalidInput, ValidationError)):
        CollectiveFusion.model_validate(wrong)


def test_the_profile_of_mindspore_has_buckets_of_64_mib():
    own = setup_of(None, seq=None, dataset=None, fusion=["mindspore"]).fusion
    assert own == fusion(all_reduce=size(64), all_gather=size(64), reduce_scatter=size(64))
    assert Setup.from_dict({"fusion": "mindspore"}).fusion == own
    with pytest.raises(SetupError, match="no profile"):
        Setup.from_dict({"fusion": "megatron"})
    with pytest.raises(RequestError, match="leave the other --fusion out"):
        setup_of(None, seq=None, dataset=None, fusion=["mindspore", "all_gather=auto"])


def test_the_command_line_says_it():
    said = ["all_reduce=index:2,4", "all_gather=size:64", "reduce_scatter=auto"]
    own = setup_of(None, seq=None, dataset=None, fusion=said).fusion
    assert own == fusion(all_reduce={"mode": "index", "index": (2, 4)}, all_gather=size(64))
    for wrong in ("all_reduce", "broadcast=auto", "all_gather=size:x", "all_gather=size", "a=b"):
        with pytest.raises(RequestError, match="--fusion"):
            setup_of(None, seq=None, dataset=None, fusion=[wrong])


# --- plans ---------------------------------------------------------------------------------------


def stack(layers: int = LAYERS):
    maker = GraphMaker(batch=4096)
    x = maker.input("x", "batch", 256)
    for k in range(layers):
        weight = maker.parameter(f"w{k}", 256, 256)  # 256 KiB
        x = maker.op("linear", [x, weight], ["batch", 256], f"layer{k}")
    loss = maker.op("mean", [x], [], "loss")
    return maker.graph(loss, loss=loss)


def data_parallel(layers: int = LAYERS, **kinds: dict[str, Any]) -> tuple[Request, Plan]:
    request = toy_request(
        graph=stack(layers),
        topology=one_level_mesh(4)[0],
        setup=Setup(microbatches=1, fusion=fusion(**kinds)),
        solver="semi_auto",
        constraints={"optimizer_parallel": {"level": 0}},
    )
    return request, planned(request)


def judged(request: Request, found: Plan) -> Cost:
    return evaluate(problem_of(request), found)


def grouped(found: Plan) -> list[tuple[str, ...]]:
    return [own.tensors for own in found.stages[0].buckets]


BACKWARD = tuple(f"w{k}" for k in reversed(range(LAYERS)))


def test_gradients_fill_buckets_from_the_last_layer_to_the_first():
    request, found = data_parallel()
    (own,) = found.stages[0].buckets
    assert (own.collective, own.tensors) == ("all_reduce", BACKWARD)
    assert own.payload_bytes == LAYERS * 256 * 256 * 4
    assert judged(request, found) == found.cost


def test_a_bucket_that_is_full_is_closed():
    _, found = data_parallel(all_reduce=size(1), **ALONE)  # four of 256 KiB
    assert grouped(found) == [BACKWARD[:4], BACKWARD[4:]]
    _, found = data_parallel(all_reduce=size(0), **ALONE)
    assert grouped(found) == []


def test_groups_end_where_they_are_said_to():
    request, found = data_parallel(all_reduce={"mode": "index", "index": (1, 4)}, **ALONE)
    assert grouped(found) == [BACKWARD[1:4], BACKWARD[4:]]  # the first is alone
    assert judged(request, found) == found.cost
    # three latencies for six gradients, each of two rounds over two levels of halving
    _, alone = data_parallel(all_reduce=size(0), **ALONE)
    latency = request.topology.levels[0].link.latency_ns * 2 * 2
    saved = alone.cost.communication_ns["gradient"] - found.cost.communication_ns["gradient"]
    assert saved == pytest.approx(3 * latency)


def test_gathers_fill_buckets_as_ops_read_them_and_small_values_go_alone():
    request, found = data_parallel()
    wish = {"optimizer_parallel": {"level": 2}}
    request = Request.model_validate({**dict(request), "constraints": wish})
    found = planned(request)
    kinds = {own.collective: own.tensors for own in found.stages[0].buckets}
    assert kinds == {
        "all_gather": tuple(reversed(BACKWARD)), "reduce_scatter": BACKWARD
    }  # fmt: skip
    stage, fuse = found.stages[0], request.setup.fusion
    least = 256 * 256 * 4 + 1
    kept = [own.collective for own in buckets_of(stage, request.graph, fuse, least)]
    assert kept == ["reduce_scatter"]


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_every_collective_has_groups_by_number(kind: str):
    request, _ = data_parallel(**{kind: {"mode": "index", "index": (1, 4)}})
    wish = {"optimizer_parallel": {"level": 2}}
    request = Request.model_validate({**dict(request), "constraints": wish})
    found = planned(request)
    # values are gathered as ops read them, gradients reduced from the last layer on
    order = {"all_gather": tuple(reversed(BACKWARD)), "reduce_scatter": BACKWARD}[kind]
    own = [bucket.tensors for bucket in found.stages[0].buckets if bucket.collective == kind]
    assert own == [order[1:4], order[4:]]
    assert judged(request, found) == found.cost


STATED = st.one_of(
    st.builds(size, st.integers(0, 64)),
    st.sets(st.integers(1, LAYERS), min_size=1, max_size=3).map(
        lambda numbers: {"mode": "index", "index": tuple(sorted(numbers))}
    ),
)


def collectives_of(found: Plan) -> set[str]:
    return {
        step.kind
        for moved in found.stages[0].redistributions
        if moved.traffic != "activation"
        for step in (*moved.forward, *moved.backward, *moved.per_step)
    }


@settings(max_examples=10, deadline=None)
@given(STATED, st.sampled_from([None, 1]))
def test_a_stated_fusion_of_all_reduces_binds_unless_shards_are_stated_too(
    stated: dict[str, Any], level: int | None
):
    request = toy_request(
        graph=stack(),
        topology=one_level_mesh(4)[0],
        setup=Setup(microbatches=1, fusion=fusion(all_reduce=stated)),
        solver="semi_auto",
        constraints={} if level is None else {"optimizer_parallel": {"level": level}},
    )
    found = planned(request)
    kinds = collectives_of(found)
    if level is None:
        assert kinds == {"all_reduce"}
        assert any("fusion of all_reduce binds" in note for note in found.notes)
    else:
        assert kinds == {"reduce_scatter", "all_gather"}
    assert judged(request, found) == found.cost


def test_folded_layers_pay_what_all_together_do():
    numbered = {"mode": "index", "index": (2,)}
    request, found = data_parallel(24, all_reduce=numbered, **ALONE)
    assert len(fold(request.graph, {}).graph.ops) < 24
    assert [len(own) for own in grouped(found)] == [2, 22]
    assert judged(request, found) == found.cost
