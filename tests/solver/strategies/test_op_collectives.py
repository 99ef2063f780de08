"""What ops move by themselves: the algorithms run on a toy cluster, and times worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright_costmodel.collectives import collective_cost
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_collectives import OwnMove, own_moves, own_moves_ns
from tests.solver.devices import HELD, Array, Lay
from tests.solver.op_bench import Bench, Codes, activation, part_named
from tests.solver.small_graphs import GraphMaker, models

MESHES = [(2,), (3,), (2, 2), (4, 2), (3, 2)]


def attention(mesh: tuple[int, ...], *, keys: int = 12, mask: bool = False) -> Bench:
    """Four query heads in two groups, 12 rows."""
    maker = GraphMaker()
    q = activation(maker, 2, 4, 12, 2)
    k, v = activation(maker, 2, 2, keys, 2), activation(maker, 2, 2, keys, 2)
    masks = [activation(maker, 12, keys)] if mask else []
    out = maker.op("attention", [q, k, v, *masks], [2, 4, 12, 2], "it")
    return Bench(models(maker.graph(out), mesh), "it")


def moves_of(bench: Bench, strategy: Codes) -> list[OwnMove]:
    row = np.array([strategy])
    return list(own_moves(bench.model, row, bench.models.interconnect))


# --- the algorithms ------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", MESHES)
def test_ring_attention_sends_blocks_as_often_as_the_model_says(mesh: tuple[int, ...]) -> None:
    """Blocks of keys and values go round; gradients start one device on and end at home."""
    bench, rng = attention(mesh), np.random.default_rng(0)
    q, k, v = wholes = [bench.whole(port, rng) / 3 for port in bench.op.inputs]
    port = bench.op.outputs[0]
    gradient = bench.whole(port, rng)
    power = np.exp(np.einsum("bgrsd,bgtd->bgrst", q, k))
    share = power / power.sum(-1, keepdims=True)
    result = np.einsum("bgrst,bgtd->bgrsd", share, v)
    scores = np.einsum("bgrsd,bgtd->bgrst", gradient, v)
    scores = share * (scores - (scores * share).sum(-1, keepdims=True))
    wanted = [
        np.einsum("bgrst,bgtd->bgrsd", scores, k),
        np.einsum("bgrst,bgrsd->bgtd", scores, q),
        np.einsum("bgrst,bgrsd->bgtd", share, gradient),
    ]
    strategies = bench.following()
    assert strategies
    for strategy in strategies:
        forward, backward = moves_of(bench, strategy)
        assert (forward.what, forward.kind, forward.backward) == ("ring", "send", False)
        assert (backward.what, backward.kind, backward.backward) == ("ring", "send", True)
        ring = bench.followed_axes(strategy)
        cluster = bench.cluster(port)
        lays = [bench.lay(own, bench.needed(strategy, i), gradient=False)
                for i, own in enumerate(bench.op.inputs)]  # fmt: skip
        ins = [bench.shards(own, whole, lay, rng)
               for own, whole, lay in zip(bench.op.inputs, wholes, lays, strict=True)]  # fmt: skip
        following = {d: group[(group.index(d) + 1) % len(group)] for d in cluster.devices
                     for group in [cluster.group(d, ring)]}  # fmt: skip

        def sent(held: dict, following=following) -> dict:
            return {following[d]: held[d] for d in held}

        total = {d: np.zeros((*own.shape[:-1], 1)) for d, own in ins[0].items()}
        made = {d: np.zeros(own.shape) for d, own in ins[0].items()}
        blocks = {d: (ins[1][d], ins[2][d]) for d in cluster.devices}
        for hop in range(forward.times + 1):
            blocks = blocks if hop == 0 else sent(blocks)
            for d, (key, value) in blocks.items():
                own = np.exp(np.einsum("bgrsd,bgtd->bgrst", ins[0][d], key))
                total[d] = total[d] + own.sum(-1, keepdims=True)
                made[d] = made[d] + np.einsum("bgrst,bgtd->bgrsd", own, value)
        outs = {d: made[d] / total[d] for d in made}
        bench.check(port, outs, result, bench.lay(port, bench.made(strategy), gradient=False))

        above = bench.shards(
            port, gradient, bench.lay(port, bench.made(strategy), gradient=True), rng
        )
        dq = {d: np.zeros(own.shape) for d, own in ins[0].items()}
        blocks = {d: (ins[1][d], ins[2][d]) for d in cluster.devices}
        gradients: dict[Codes, tuple[Array, Array]] = {}
        at_home: dict[Codes, tuple[Array, Array]] = {}
        for hop in range(backward.times + 1):
            if hop:
                blocks, gradients = sent(blocks), sent(gradients)
            for d, (key, value) in blocks.items():
                own = np.exp(np.einsum("bgrsd,bgtd->bgrst", ins[0][d], key)) / total[d]
                above_outs = (above[d] * outs[d]).sum(-1, keepdims=True)
                ds = own * (np.einsum("bgrsd,bgtd->bgrst", above[d], value) - above_outs)
                dq[d] = dq[d] + np.einsum("bgrst,bgtd->bgrsd", ds, key)
                dk = np.einsum("bgrst,bgrsd->bgtd", ds, ins[0][d])
                dv = np.einsum("bgrst,bgrsd->bgtd", own, above[d])
                if hop == 0:
                    at_home[d] = (dk, dv)
                elif hop == 1:
                    gradients[d] = (dk, dv)
                else:
                    gradients[d] = (gradients[d][0] + dk, gradients[d][1] + dv)
        gradients = sent(gradients)  # that of the p - 1 sends of gradients with no block beside it
        found = [
            dq,
            {d: at_home[d][0] + gradients[d][0] for d in dq},
            {d: at_home[d][1] + gradients[d][1] for d in dq},
        ]
        for i, own in enumerate(bench.op.inputs):
            lay = bench.lay(own, bench.needed(strategy, i), gradient=True)
            bench.check(own, found[i], wanted[i], lay)


@pytest.mark.parametrize("mesh", MESHES)
def test_rows_asked_for_by_their_numbers_need_no_partial_sums(mesh: tuple[int, ...]) -> None:
    maker = GraphMaker()
    ids = maker.input("ids", 12, 6, dtype="int64")
    out = maker.op("embedding", [maker.parameter("table", 24, 8), ids], [12, 6, 8], "it")
    bench, rng = Bench(models(maker.graph(out), mesh), "it"), np.random.default_rng(0)
    table_port, ids_port = bench.op.inputs
    table = bench.whole(table_port, rng)
    index = rng.integers(0, 24, (12, 6))
    port = bench.op.outputs[0]
    gradient = bench.whole(port, rng)
    wanted = np.zeros(table.shape)
    np.add.at(wanted, index, gradient)
    rows = part_named(bench, "v")
    for strategy in bench.following():
        assert [move.what for move in moves_of(bench, strategy)] == ["indices", "rows", "rows"]
        group_axes = bench.followed_axes(strategy)
        state = bench.needed(strategy, 0)
        lay = bench.lay(table_port, state, gradient=False)
        shards = bench.shards(table_port, table, lay, rng)
        cluster = bench.cluster(table_port)
        on = [bench.model.parts_of_code[code] for code in strategy]
        own_ids = Lay(tuple(ids_port.slot_of.get(p[0], HELD) if p else HELD for p in on))
        asked = bench.shards(ids_port, index * 1.0, own_ids, rng)
        above = bench.shards(
            port, gradient, bench.lay(port, bench.made(strategy), gradient=True), rng
        )
        outs, below = {}, {d: np.zeros(own.shape) for d, own in shards.items()}
        for d in cluster.devices:
            numbers = asked[d].astype(int)
            made = np.zeros((*numbers.shape, shards[d].shape[1]))
            for other in cluster.group(d, group_axes):
                stretch = cluster.region(lay, other)[0]
                there = (numbers >= stretch.start) & (numbers < stretch.stop)
                made[there] = shards[other][numbers[there] - stretch.start]
                np.add.at(below[other], numbers[there] - stretch.start, above[d][there])
            outs[d] = made
        # rows on other axes too: what no member of the group has is zero, and the sum is partial
        summed = [a for a, p in enumerate(on) if p == (rows,)]
        assert (bench.made(strategy).count(4) > 0) == bool(summed)
        bench.check(port, outs, table[index], bench.lay(port, bench.made(strategy), gradient=False))
        bench.check(table_port, below, wanted, bench.lay(table_port, state, gradient=True))


# --- which strategies there are ------------------------------------------------------------------


def test_a_mask_over_both_is_sharded_on_the_queries_alone() -> None:
    bench = attention((2,), mask=True)
    s = part_named(bench, "s")
    (strategy,) = bench.following()
    # slots: batch, groups, heads of a group (query only), rows; of the mask rows and keys
    assert (bench.needed(strategy, 0), bench.needed(strategy, 1)) == ((3,), (2,))
    assert bench.needed(strategy, 3) == (0,)
    assert bench.model.parts_of_code[strategy[0]][0] == s
    # keys and values go round, the mask does not: 2 * (2*2*6*2) elements of 4 bytes
    assert moves_of(bench, strategy)[0].payload_bytes[0] == 2 * 48 * 4


def test_keys_of_another_length_follow_where_they_divide() -> None:
    s_of = part_named(attention((4,)), "s")
    assert any(attention((4,), keys=8).following())
    assert attention((4,), keys=6).following() == []
    assert any((row == s_of).any() for row in attention((4,), keys=6).model.choices)


def test_keys_that_any_device_can_make_do_not_travel() -> None:
    maker = GraphMaker()
    q = activation(maker, 2, 4, 12, 2)
    k, v = maker.input("k", 2, 4, 12, 2), maker.input("v", 2, 4, 12, 2)
    out = maker.op("attention", [q, k, v], [2, 4, 12, 2], "it")
    assert Bench(models(maker.graph(out), (2,)), "it").following() == []


def test_a_rule_of_ones_own_can_have_followers() -> None:
    maker = GraphMaker()
    rule = {"notation": "s d!, t!@s? d! -> s d!"}
    ins = [activation(maker, 8, 4), activation(maker, 8, 4)]
    bench = Bench(models(maker.graph(maker.op("mine", ins, [8, 4], "it", rule=rule)), (2,)), "it")
    (strategy,) = bench.following()
    assert (bench.needed(strategy, 0), bench.needed(strategy, 1)) == ((0,), (0,))
    assert bench.made(strategy) == (0,)


# --- times ---------------------------------------------------------------------------------------


def priced(bench: Bench, strategy: Codes) -> tuple[list[tuple[object, ...]], float]:
    moves = moves_of(bench, strategy)
    told = [(m.what, m.axes, m.backward, m.times, float(m.payload_bytes[0])) for m in moves]
    found: Models = bench.models
    total = own_moves_ns(bench.model, np.array([strategy]), found.interconnect)[0]
    assert total == pytest.approx(sum(float(m.ns[0]) for m in moves), rel=1e-12)
    return told, float(total)


def test_a_ring_of_four_sends_three_times_and_twice_the_bytes_backward() -> None:
    bench = attention((2, 2))
    s = bench.model.following(part_named(bench, "s"))
    assert s is not None
    # keys and values are 2*2*12*2 floats each, a quarter on each device: 96 bytes, both 192
    local = 2 * (2 * 2 * 12 * 2) * 4 / 4
    told, total = priced(bench, (s, s))
    assert told == [
        ("ring", (0, 1), False, 3, local),
        ("ring", (0, 1), True, 3, 2 * local),
    ]
    send = collective_cost("send", (4,), bench.models.interconnect)
    assert total == pytest.approx(3 * (2 * send.latency_ns + 3 * local * send.ns_per_byte))
    # with two axes a ring of two, twice the block: gathered keys lie on the other
    whole = part_named(bench, "s")
    told, _ = priced(bench, (whole, s))
    assert told == [("ring", (1,), False, 1, 2 * local), ("ring", (1,), True, 1, 4 * local)]


def test_ids_and_rows_are_exchanged_each_way_once() -> None:
    maker = GraphMaker()
    ids = maker.input("ids", 8, 4, dtype="int64")
    out = maker.op("embedding", [maker.parameter("table", 64, 8), ids], [8, 4, 8], "it")
    bench = Bench(models(maker.graph(out), (4,)), "it")
    code = bench.model.following(part_named(bench, "b0"))
    assert code is not None
    told, total = priced(bench, (code,))
    # a quarter of 32 ids of 8 bytes, and of 32 rows of 8 floats
    assert told == [
        ("indices", (0,), False, 1, 64),
        ("rows", (0,), False, 1, 256),
        ("rows", (0,), True, 1, 256),
    ]
    exchange = collective_cost("all_to_all", (4,), bench.models.interconnect)
    assert total == pytest.approx(3 * exchange.latency_ns + 576 * exchange.ns_per_byte)


def test_what_goes_round_costs_no_more_arithmetic_than_what_is_gathered() -> None:
    bench = attention((2, 2))
    s = part_named(bench, "s")
    follow = bench.model.following(s)
    gathered, ring = (np.array([(code, code)]) for code in (s, follow))
    found = bench.models
    assert found.compute_ns(bench.model, ring) == found.compute_ns(bench.model, gathered)
    assert own_moves_ns(bench.model, gathered, found.interconnect)[0] == 0
