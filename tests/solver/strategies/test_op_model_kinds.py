"""Models of kinds with a computation of their own, run: devices compute on shards as `required`
says, and what they make combines as `made` says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from meshwright_solver.problem.op_info import OpPort
from tests.solver.devices import HELD, Array, Lay
from tests.solver.op_bench import Bench, Codes, activation, part_named, run_forward
from tests.solver.small_graphs import GraphMaker, models


def free_lay(port: OpPort, strategy: Codes) -> Lay:
    """A free input is cut as its op asks: any device can have any part of it."""
    return Lay(tuple(port.slot_of.get(code, HELD) for code in strategy))


def run_in_two_phases(bench: Bench, strategy: Codes, wholes, result, statistics, finish, rng):
    """Like run_forward, with sums over the axes on reused parts in between."""
    ins = []
    for k, (port, whole) in enumerate(zip(bench.op.inputs, wholes, strict=True)):
        free = bench.models.values.value_of[port.tensor].is_free
        lay = (
            free_lay(port, strategy)
            if free
            else bench.lay(port, bench.needed(strategy, k), gradient=False)
        )
        ins.append(bench.shards(port, whole, lay, rng))
    reused = [a for a, c in enumerate(strategy) if c < bench.model.parts and bench.model.reused[c]]
    cluster = bench.cluster(bench.op.outputs[0])
    arrays = {device: [own[device] for own in ins] for device in ins[0]}
    local = {device: statistics(arrays[device], device) for device in arrays}
    outs = {
        device: finish(arrays[device], sum(local[o] for o in cluster.group(device, reused)), device)
        for device in arrays
    }
    port = bench.op.outputs[0]
    bench.check(port, outs, result, bench.lay(port, bench.made(strategy), gradient=False))


def offset(bench: Bench, strategy: Codes, device: Codes, part: int) -> int:
    """Where a device's stretch of a part begins."""
    index, ways = 0, 1
    for a, code in enumerate(strategy):
        if code == part:
            index = index * bench.model.axis_sizes[a] + device[a]
            ways *= bench.model.axis_sizes[a]
    return index * (bench.model.sizes[part] // ways)


def nothing(_: Sequence[Array], __: Codes) -> float:
    return 0.0


def linear_with_bias() -> tuple[GraphMaker, str]:
    maker = GraphMaker()
    ins = [activation(maker, 4, 6), maker.parameter("w", 8, 6), maker.parameter("bias", 8)]
    return maker, maker.op("linear", ins, [4, 8], "it")


KINDS_MESHES = [(2,), (2, 2), (4, 2), (3, 2)]


@pytest.mark.parametrize("mesh", KINDS_MESHES)
def test_a_bias_is_added_by_the_first_device_of_those_that_sum(mesh):
    maker, out = linear_with_bias()
    bench, rng = Bench(models(maker.graph(out), mesh), "it"), np.random.default_rng(0)
    x, w, bias = wholes = [bench.whole(port, rng) for port in bench.op.inputs]
    summed = part_named(bench, "k")
    for strategy in bench.strategies(1000, rng):
        over = [a for a, code in enumerate(strategy) if code == summed]

        def local(own, device, over=over):
            return own[0] @ own[1].T + (0 if any(device[a] for a in over) else own[2])

        run_forward(bench, strategy, wholes, x @ w.T + bias, local, rng)


@pytest.mark.parametrize("mesh", KINDS_MESHES)
def test_an_embedding_looks_up_its_own_rows_and_adds_zeros_for_others(mesh):
    maker = GraphMaker()
    ids = maker.input("ids", 4, 6, dtype="int64")
    out = maker.op("embedding", [maker.parameter("table", 12, 8), ids], [4, 6, 8], "it")
    bench, rng = Bench(models(maker.graph(out), mesh), "it"), np.random.default_rng(0)
    table = bench.whole(bench.op.inputs[0], rng)
    index = rng.integers(0, 12, (4, 6)) * 1.0
    rows = part_named(bench, "v")
    strategies = bench.strategies(1000, rng)
    assert any(rows in strategy for strategy in strategies)
    for strategy in strategies:

        def look_up(own, _, device, strategy=strategy):
            local = own[1].astype(int) - offset(bench, strategy, device, rows)
            mine = (local >= 0) & (local < len(own[0]))
            return np.where(mine[..., None], own[0][np.where(mine, local, 0)], 0.0)

        run_in_two_phases(
            bench, strategy, [table, index], table[index.astype(int)], nothing, look_up, rng
        )


@pytest.mark.parametrize("mesh", KINDS_MESHES)
def test_cross_entropy_over_split_classes_sums_exponentials_and_the_picked_logit(mesh):
    maker = GraphMaker()
    label = maker.tensor("label", [6], "label", dtype="int64")
    out = maker.op("cross_entropy", [activation(maker, 6, 8), label], [], "it")
    bench, rng = Bench(models(maker.graph(out, loss=out), mesh), "it"), np.random.default_rng(0)
    logits = bench.whole(bench.op.inputs[0], rng)
    index = rng.integers(0, 8, 6) * 1.0
    classes = part_named(bench, "v")
    whole = np.log(np.exp(logits).sum(1)) - logits[np.arange(6), index.astype(int)]
    strategies = bench.strategies(1000, rng)
    assert any(classes in strategy for strategy in strategies)
    for strategy in strategies:

        def statistics(own, device, strategy=strategy):
            local = own[1].astype(int) - offset(bench, strategy, device, classes)
            mine = (local >= 0) & (local < own[0].shape[1])
            picked = own[0][np.arange(len(local)), np.where(mine, local, 0)] * mine
            return np.stack([np.exp(own[0]).sum(1), picked])

        def finish(_, total, __):
            return np.array((np.log(total[0]) - total[1]).sum() / 6)

        run_in_two_phases(
            bench, strategy, [logits, index], np.array(whole.mean()), statistics, finish, rng
        )


@pytest.mark.parametrize("mesh", KINDS_MESHES)
def test_softmax_and_layer_norm_over_a_split_dim_reduce_their_statistics(mesh):
    rng = np.random.default_rng(0)
    maker = GraphMaker()
    out = maker.op("softmax", [activation(maker, 4, 12)], [4, 12], "it")
    bench = Bench(models(maker.graph(out), mesh), "it")
    x = bench.whole(bench.op.inputs[0], rng) / 3
    for strategy in bench.strategies(1000, rng):
        run_in_two_phases(
            bench,
            strategy,
            [x],
            np.exp(x) / np.exp(x).sum(1, keepdims=True),
            lambda own, _: np.exp(own[0]).sum(1, keepdims=True),
            lambda own, total, _: np.exp(own[0]) / total,
            rng,
        )

    maker = GraphMaker()
    ins = [activation(maker, 4, 12), maker.parameter("w", 12), maker.parameter("b", 12)]
    bench = Bench(models(maker.graph(maker.op("layer_norm", ins, [4, 12], "it")), mesh), "it")
    x, w, b = wholes = [bench.whole(port, rng) for port in bench.op.inputs]

    def normal(x, mean, square, w, b):
        return (x - mean[:, None]) / np.sqrt(square - mean**2 + 1e-5)[:, None] * w + b

    for strategy in bench.strategies(1000, rng):
        run_in_two_phases(
            bench,
            strategy,
            wholes,
            normal(x, x.mean(1), (x**2).mean(1), w, b),
            lambda own, _: np.stack([own[0].sum(1), (own[0] ** 2).sum(1)]) / 12,
            lambda own, total, _: normal(own[0], *total, *own[1:]),
            rng,
        )


@pytest.mark.parametrize("mesh", KINDS_MESHES)
def test_grouped_attention_runs_on_groups_of_heads_and_on_rows_of_the_query(mesh):
    maker = GraphMaker()
    q = activation(maker, 2, 8, 6, 2)
    k, v = activation(maker, 2, 4, 6, 2), activation(maker, 2, 4, 6, 2)
    out = maker.op("attention", [q, k, v], [2, 8, 6, 2], "it")
    bench, rng = Bench(models(maker.graph(out), mesh), "it"), np.random.default_rng(0)

    def attention(own, *_):
        # slots: batch, groups, heads of a group (query only), rows, width
        scores = np.exp(np.einsum("bgrsd,bgtd->bgrst", own[0], own[1]) / 9)
        return np.einsum("bgrst,bgtd->bgrsd", scores / scores.sum(-1, keepdims=True), own[2])

    wholes = [bench.whole(port, rng) for port in bench.op.inputs]
    strategies = bench.strategies(60, rng)
    for name in ("b", "g", "r", "s"):
        assert any(part_named(bench, name) in strategy for strategy in bench.model.choices)
    for strategy in strategies:
        run_forward(bench, strategy, wholes, attention(wholes), attention, rng)


@pytest.mark.parametrize("mesh", [(2,), (2, 2)])
def test_a_convolution_sums_over_split_channels(mesh):
    maker = GraphMaker()
    x, w = activation(maker, 2, 4, 6), maker.parameter("w", 4, 4, 3)
    out = maker.op("conv", [x, w], [2, 4, 6], "it", attrs={"padding": [1]})
    bench, rng = Bench(models(maker.graph(out), mesh), "it"), np.random.default_rng(0)

    def convolve(own, *_):
        padded = np.pad(own[0], ((0, 0), (0, 0), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
        return np.einsum("ncxw,ocw->nox", windows, own[1])

    wholes = [bench.whole(port, rng) for port in bench.op.inputs]
    space = part_named(bench, "x0")
    for strategy in bench.strategies(1000, rng):
        if space not in strategy:  # with halos: what a neighbour sends is not modelled here
            run_forward(bench, strategy, wholes, convolve(wholes), convolve, rng)


@pytest.mark.parametrize(("kind", "share"), [("sum", 1), ("mean", 1 / 8)])
def test_reductions_leave_partial_sums(kind, share):
    maker = GraphMaker()
    out = maker.op(kind, [activation(maker, 4, 8)], [4], "it", attrs={"dims": [1]})
    bench, rng = Bench(models(maker.graph(out), (2, 2)), "it"), np.random.default_rng(0)
    whole = bench.whole(bench.op.inputs[0], rng)
    for strategy in bench.strategies(1000, rng):
        run_forward(
            bench, strategy, [whole], whole.sum(1) * share, lambda x, _: x[0].sum(1) * share, rng
        )
