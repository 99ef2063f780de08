"""Comparisons of plans: waterfalls, changes by module and tables add up to the plans' totals."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest

from meshwright.capture.decoder import decoder_graph
from meshwright.common.name_ranges import pattern
from meshwright.plugins.planner import preset
from meshwright.reports.comparison import compare_plans, compared_ns, step_parts, totals_of
from meshwright.reports.comparison_table import TableSide, comparison_table
from meshwright.reports.module_changes import all_changes, module_group
from meshwright.reports.ops import shares_of
from meshwright.schema import (
    Degrees,
    Graph,
    Pipeline,
    Plan,
    PlanError,
    Recompute,
    Request,
    Setup,
    Topology,
)
from meshwright.schema.comparison import Comparison, ModuleChange
from tests.small_decoder import DECODER
from tests.solver.requests import planned

# batch, tp, ZeRO level, pipeline ranks, recomputation
CASES = (
    (32, 1, 1, 1, "none"),
    (32, 4, 1, 1, "none"),
    (64, 2, 3, 1, "full"),
    (32, 2, 1, 2, "none"),
)
PAIRS = [*combinations(range(len(CASES)), 2)]


@cache
def graph() -> Graph:
    return decoder_graph(DECODER, batch=32, seq=512)


@cache
def topology() -> Topology:
    return preset("h100-2x4")


def setup_of(case: int) -> Setup:
    batch, _, _, ranks, _ = CASES[case]
    return Setup(global_batch=batch, microbatches=4 if ranks > 1 else 1)


@cache
def plan_of(case: int) -> Plan:
    _, tp, zero, ranks, recompute = CASES[case]
    request = Request(
        graph=graph(),
        topology=topology(),
        setup=setup_of(case),
        degrees=Degrees(dp=8 // tp // ranks, tp=tp, zero=zero),
        pipeline=Pipeline(ranks=ranks, schedule="1f1b" if ranks > 1 else None),
        recompute=Recompute(policy=recompute),  # type: ignore[arg-type]
    )
    return planned(request)


def compared(first: int, second: int) -> Comparison:
    return compare_plans(
        plan_of(first),
        graph(),
        plan_of(second),
        graph(),
        setups=(setup_of(first), setup_of(second)),
    )


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_bars_of_the_waterfall_add_up_to_the_difference(first: int, second: int) -> None:
    made = compared(first, second)
    assert made.per_sample == (CASES[first][0] != CASES[second][0])
    before, after = (
        compared_ns(side, per_sample=made.per_sample) for side in (made.first, made.second)
    )
    exact = pytest.approx(after, rel=1e-12)
    assert before + sum(change.ns for change in made.changes) == exact
    assert made.changes[-1].until_ns == exact
    until_ns = before
    for change in made.changes:
        until_ns += change.ns
        assert change.until_ns == pytest.approx(until_ns, rel=1e-12)
        assert change.kind in {**step_parts(made.first), **step_parts(made.second)}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_changes_by_module_add_up_to_the_ops_of_both_plans(first: int, second: int) -> None:
    made = compared(first, second)
    total = made.all_modules
    assert total is not None
    assert total == all_changes(made.modules)
    for case, cost, totals in (
        (first, total.first, made.first),
        (second, total.second, made.second),
    ):
        own, over = plan_of(case), (totals.batch or 1) if made.per_sample else 1
        shares = [*shares_of(own, graph())]
        ranks = len({stage.ranks_from for stage in own.stages})
        of_ops_ns = sum(share.own.compute_ns for share in shares) / ranks / over
        moved_ns = sum(share.communication_ns for share in shares) / ranks / over
        updates = [change for change in made.modules if change.part == "optimizer update"]
        side = "first" if case == first else "second"
        update_ns = sum(getattr(change, side).compute_ns for change in updates)
        assert cost.compute_ns == pytest.approx(of_ops_ns + update_ns)
        assert cost.communication_ns == pytest.approx(moved_ns)
        assert cost.parameter_bytes == pytest.approx(
            sum(share.parameter_bytes for share in shares) / ranks
        )
        assert bool(updates) == all(CASES[each][3] == 1 for each in (first, second))
    assert total.ns == pytest.approx(total.second.ns - total.first.ns)
    assert [abs(change.ns) for change in made.modules] == sorted(
        (abs(change.ns) for change in made.modules), reverse=True
    )


def test_changes_by_module_of_one_stage_are_those_of_the_plans_cost() -> None:
    made = compared(0, 1)
    assert made.all_modules is not None
    for side, cost in zip(
        (made.first, made.second),
        (made.all_modules.first, made.all_modules.second),
        strict=True,
    ):
        memory = side.memory_bytes
        assert cost.compute_ns == pytest.approx(side.compute_ns)
        assert cost.communication_ns == pytest.approx(sum(side.communication_ns.values()))
        state = memory.parameters + memory.gradients + memory.optimizer
        assert cost.parameter_bytes == pytest.approx(state)
        assert cost.saved_bytes == pytest.approx(memory.activations)


def test_a_group_has_every_module_of_a_part_of_the_layers() -> None:
    made = compared(0, 1)
    groups = {change.module: change for change in made.modules if change.part == "modules"}
    modules = {op.module for op in graph().ops}
    assert set(groups) == {module_group(module) for module in modules}
    mlp = next(change for name, change in groups.items() if name.endswith(".*.mlp"))
    assert mlp.count == DECODER.layers
    assert all("*" not in name or pattern(name) == name for name in groups)


@pytest.mark.parametrize(
    ("module", "group"),
    [
        ("", ""),
        ("lm_head", "lm_head"),
        ("model.layers.3", "model.layers.*"),
        ("model.layers.3.mlp", "model.layers.*.mlp"),
        ("model.layers.3.mlp.experts.7.up", "model.layers.*.mlp"),
        ("trunk.stages.1.0.conv1", "trunk.stages.*.*.conv1"),
        ("0.attention.query", "*.attention"),
    ],
)
def test_a_module_belongs_to_a_part_of_the_outermost_repeated_block(
    module: str, group: str
) -> None:
    assert module_group(module) == group


def test_small_changes_are_below_a_thousandth_of_both_totals() -> None:
    made = compared(0, 1)
    total = made.all_modules
    assert total is not None
    least_ns = max(total.first.ns, total.second.ns) / 1000
    least_bytes = max(total.first.bytes, total.second.bytes) / 1000

    def is_small(change: ModuleChange) -> bool:
        return abs(change.ns) <= least_ns and abs(change.bytes) <= least_bytes

    assert [change.small for change in made.modules] == [*map(is_small, made.modules)]
    assert {change.small for change in made.modules} == {True, False}
    small = [change for change in made.modules if change.small]
    assert made.small_modules is not None
    assert made.small_modules.count == len(small)
    assert made.small_modules.ns == pytest.approx(sum(change.ns for change in small))
    assert made.small_modules.bytes == pytest.approx(sum(change.bytes for change in small))


def test_a_table_marks_the_best_value_of_each_row() -> None:
    sides = [
        TableSide(plan_of(case), graph(), setup_of(case), topology()) for case in range(len(CASES))
    ]
    made = comparison_table(sides, baseline=1)
    assert [column.plan for column in made.plans] == [plan_of(case).id for case in range(4)]
    for row in made.figures:
        base = row.values[1]
        assert base is not None
        for value, change in zip(row.values, row.changes, strict=True):
            assert value is not None
            assert change == value - base
        best = min if row.better == "less" else max
        wanted = best(value for value in row.values if value is not None)
        if row.better is None or len(set(row.values)) == 1:
            assert row.best == ()
        else:
            assert all(row.values[position] == wanted for position in row.best)
            assert len(row.best) == row.values.count(wanted)
    rows = {row.name: row for row in made.figures}
    assert rows["step"].better is None, "steps of other batches are not comparable"
    assert rows["step"].values == tuple(plan_of(case).cost.step_ns for case in range(4))


def test_a_table_states_the_options_in_which_any_plan_differs() -> None:
    sides = [TableSide(plan_of(case), graph(), setup_of(case), topology()) for case in range(4)]
    options = {row.name: row.values for row in comparison_table(sides).requested}
    assert options["setup global_batch"] == ("32", "32", "64", "32")
    assert options["degrees tp"] == ("default", "4", "2", "2")
    assert "topology" not in options
    chosen = {row.name: row.values for row in comparison_table(sides).chosen}
    assert chosen["schedule"] == ("none", "none", "none", "1f1b")


def test_parts_of_steps_add_up_in_the_table_too() -> None:
    sides = [TableSide(plan_of(case), graph(), setup_of(case), topology()) for case in (0, 1, 3)]
    made = comparison_table(sides)
    rows = {row.name: row.values for row in made.figures}
    parts = [row.values for row in made.figures if row.group == "step"]
    for position, step_ns in enumerate(rows["step"]):
        assert sum(values[position] or 0.0 for values in parts) == pytest.approx(step_ns)


def test_plans_that_do_not_fit_are_never_the_best() -> None:
    small = topology().model_copy(
        update={"device": topology().device.model_copy(update={"memory_bytes": 1 << 20})}
    )
    overfull = plan_of(0).model_copy(
        update={
            "name": "overfull",
            "cost": plan_of(0).cost.model_copy(
                update={
                    "step_ns": 1.0,
                    "memory_bytes": plan_of(0).cost.memory_bytes.model_copy(update={"capacity": 1}),
                }
            ),
        }
    )
    sides = [
        TableSide(overfull, graph(), setup_of(0), small),
        *(TableSide(plan_of(case), graph(), setup_of(case), topology()) for case in (0, 1)),
    ]
    made = comparison_table(sides)
    assert [column.fits for column in made.plans] == [False, True, True]
    assert all(0 not in row.best for row in made.figures)


@pytest.mark.parametrize(("count", "baseline"), [(1, 0), (9, 0), (2, 2), (2, -1)])
def test_a_table_has_two_to_eight_plans_and_a_baseline_among_them(
    count: int, baseline: int
) -> None:
    side = TableSide(plan_of(0), graph(), setup_of(0), topology())
    with pytest.raises(PlanError):
        comparison_table([side] * count, baseline)


def test_totals_without_a_setup_have_no_batch() -> None:
    assert totals_of(plan_of(0), graph(), None).batch is None
