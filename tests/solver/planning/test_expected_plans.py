"""Plans that an expert expects; what is shared is paid once."""

from __future__ import annotations

import math

import pytest

from meshwright.schema import Budget, Pin, Plan
from tests.solver.requests import ONE_BATCH, mlp_request, planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology


def strategies(found: Plan) -> dict[str, dict[str, tuple[str, ...]]]:
    return {op.op: op.strategy for op in found.stages[0].ops}


def collectives(found: Plan, tensor: str, op: str | None = None) -> list[list[str]]:
    """Kinds of the steps of a tensor on its way to `op`: forward, backward, once a step."""
    moved = [r for r in found.stages[0].redistributions if (r.tensor, r.op) == (tensor, op)]
    return [
        [step.kind for r in moved for step in getattr(r, half)]
        for half in ("forward", "backward", "per_step")
    ]


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
        toy_request(
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
        toy_request(
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
    found = planned(mlp_request(6, topology(*levels, bytes_per_s=1e12)))
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
        toy_request(
            graph=maker.graph("loss:out", loss="loss:out"),
            topology=topology(8, memory_bytes=3 << 30),
            setup=ONE_BATCH,
        )
    )
    (table,) = [p for p in found.stages[0].parameters if p.tensor == "table"]
    assert table.value_bytes == (1 << 30) // 8
    assert strategies(found)["look"].keys() <= {"v", "h"}
