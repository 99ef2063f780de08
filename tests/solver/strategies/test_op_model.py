"""Op models, worked by hand: states, and which strategies there are."""

from __future__ import annotations

import itertools

import numpy as np

from tests.solver.op_bench import Bench, activation, part_named
from tests.solver.small_graphs import GraphMaker, models


def test_the_states_of_a_linear_layer_are_those_of_the_table_in_the_design():
    # x[b, k] w[n, k] -> y[b, n]; slots of x: b, k; of w: n, k; of y: b, n; then R, P, V
    maker = GraphMaker()
    x, w = activation(maker, 4, 4), maker.parameter("w", 4, 4)
    bench = Bench(models(maker.graph(maker.op("linear", [x, w], [4, 4], "it")), (2,)), "it")
    b, k, n, idle = (part_named(bench, "b0"), part_named(bench, "k"), part_named(bench, "n"), 3)
    table = {
        b: ((0,), (4,), (0,)),  # data parallel: S, V (gradients are summed), S
        k: ((1,), (1,), (3,)),  # row parallel: S, S, P
        n: ((4,), (0,), (1,)),  # column parallel: V, S, S
        idle: ((2,), (2,), (2,)),  # repeated: R, R, R
    }
    assert sorted(bench.strategies(9, np.random.default_rng(0))) == [(0,), (1,), (2,), (3,)]
    for code, expected in table.items():
        strategy = (code,)
        found = bench.needed(strategy, 0), bench.needed(strategy, 1), bench.made(strategy)
        assert found == expected


def test_partial_sums_pass_a_residual_sum_but_no_nonlinear_op():
    maker = GraphMaker()
    a, b = activation(maker, 4, 4), activation(maker, 4, 4)
    total = maker.op("add", [a, b], [4, 4], "sum")
    maker.op("gelu", [total], [4, 4], "after")
    found = models(maker.graph("after:out"), (2,))
    add, gelu = Bench(found, "sum"), Bench(found, "after")
    passing = add.model.parts + 1
    assert (passing,) in add.strategies(9, np.random.default_rng(0))
    assert add.needed((passing,), 0) == add.needed((passing,), 1) == add.made((passing,)) == (3,)
    assert gelu.model.choices.max() == gelu.model.idle


def test_a_strategy_must_divide_every_factor():
    # 6 rows over axes of 2 and 2: one axis fits, both do not; 4 columns take both
    maker = GraphMaker()
    bench = Bench(models(maker.graph(maker.op("neg", [activation(maker, 6, 4)], [6, 4], "it")),
                         (2, 2)), "it")  # fmt: skip
    rows, columns = 0, 1
    found = bench.strategies(99, np.random.default_rng(0))
    assert (rows, rows) not in found
    assert (columns, columns) in found
    assert {(rows, columns), (columns, rows), (rows, 2), (2, 2)} <= set(found)


def test_work_is_cut_by_axes_on_parts_and_repeated_on_others():
    maker = GraphMaker()
    x, w = activation(maker, 8, 8), maker.parameter("w", 8, 8)
    found = models(maker.graph(maker.op("linear", [x, w], [8, 8], "it")), (2, 4))
    bench = Bench(found, "it")
    idle = bench.model.idle
    for strategy, ways in [((0, 1), 8), ((0, idle), 2), ((idle, 2), 4), ((idle, idle), 1)]:
        assert bench.model.ways(np.array([strategy]))[0] == ways
    # 2 * 8 * 8 * 8 FLOPs, two products backward
    assert bench.model.flops == 1024
    assert bench.model.runs_backward


def test_all_strategies_are_tried_once_in_order():
    maker = GraphMaker()
    x, w = activation(maker, 4, 4), maker.parameter("w", 4, 4)
    bench = Bench(models(maker.graph(maker.op("linear", [x, w], [4, 4], "it")), (2, 2)), "it")
    rows = [tuple(row) for row in bench.model.choices.tolist()]
    assert rows == sorted(set(rows)) == list(itertools.product(range(4), repeat=2))
