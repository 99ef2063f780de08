"""`meshwright explain` and `meshwright compare`, on plan files."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.planfile import read_plan
from meshwright.plugins import entry_points
from meshwright.schema.comparison import Comparison
from meshwright.schema.comparison_table import ComparisonTable
from meshwright.schema.explanation import Explanation
from tests.clients.conftest import Run


@pytest.fixture
def plan_file(run: Run, graph_file: Path, tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    assert run("plan", graph_file, "--topology", "h100-2x4", "-o", file).code == 0
    return file


def test_an_op_is_explained(run: Run, plan_file: Path, tmp_path: Path) -> None:
    ran = run("explain", plan_file, "--op", "layers.0.linear", "--seconds", "60")
    assert ran.code == 0, ran.err
    for word in ("layers.0.linear: matmul", "chosen", "slower", "the plan has it", "objective"):
        assert word in ran.out, word
    file = tmp_path / "why.json"
    ran = run("explain", plan_file, "--op", "layers.0.linear", "-o", file)
    assert f"wrote {file}" in ran.err
    assert Explanation.from_json(file.read_text()).plan == read_plan(plan_file).plan.id


def test_a_pin_is_priced(run: Run, graph_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "pinned.json"
    run("plan", graph_file, "--topology", "h100-2x4", "--pin", "layers.0.linear:", "-o", file)
    ran = run("explain", file, "--op", "layers.0.*", "--seconds", "60")
    assert ran.code == 0, ran.err
    assert "pin layers.0.linear:: cost" in ran.out
    assert "not allowed" in ran.out


@pytest.mark.parametrize(("op", "what"), [("nowhere", "matches no op"), ("", "matches no op")])
def test_an_op_that_is_not_there_is_bad_input(
    run: Run, plan_file: Path, op: str, what: str
) -> None:
    ran = run("explain", plan_file, "--op", op)
    assert ran.code == 2
    assert what in ran.err


def test_without_the_server_distribution_it_says_what_would_do(
    run: Run, plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_points, "entry_points", lambda **_: ())
    ran = run("explain", plan_file, "--op", "*")
    assert ran.code == 3
    assert "meshwright-server" in ran.err


def test_two_plans_are_compared(
    run: Run, graph_file: Path, plan_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    run("plan", graph_file, "--topology", "h100-2x4", "--pin", "layers.0.linear:", "-o", other)
    ran = run("compare", plan_file, other)
    assert ran.code == 0, ran.err
    assert "The first plan has the shorter step, by" in ran.out
    for word in ("step", "memory", "layers.0.linear", "strategy", "replicated", "ops are alike"):
        assert word in ran.out, word
    file = tmp_path / "comparison.json"
    assert run("compare", plan_file, other, "-o", file).code == 0
    made = Comparison.from_json(file.read_text())
    assert made.second.step_ns > made.first.step_ns
    assert made.second_shorter is not None
    assert 0 <= made.second_shorter < 0.5
    ran = run("compare", plan_file, plan_file)
    assert "2 ops are alike" in ran.out
    assert "shorter step" not in ran.out


def test_a_comparison_says_what_was_requested_differently(
    run: Run, graph_file: Path, plan_file: Path, tmp_path: Path
) -> None:
    pinned = tmp_path / "pinned.json"
    run("plan", graph_file, "--topology", "h100-2x4", "--pin", "layers.0.linear:", "-o", pinned)
    ran = run("compare", plan_file, pinned, "-o", tmp_path / "comparison.json")
    assert ran.code == 0, ran.err
    made = Comparison.from_json((tmp_path / "comparison.json").read_text())
    assert [(own.option, own.first) for own in made.requested] == [("pins", "default")]
    assert made.requested[0].second == "layers.0.linear:"
    total = sum(change.ns for change in made.changes)
    assert total == pytest.approx(made.second.step_ns - made.first.step_ns)
    sizes = [abs(change.ns) for change in made.changes]
    assert sizes == sorted(sizes, reverse=True)
    words = " ".join(run("compare", plan_file, pinned).out.split())
    assert "The first plan has the shorter step, by" in words
    assert f"less of {next(own.part for own in made.changes if own.ns > 0)}" in words
    assert "Requested differently" in words


def test_plans_of_other_batches_are_compared_for_each_sample(
    run: Run, graph_file: Path, plan_file: Path, tmp_path: Path
) -> None:
    larger, file = tmp_path / "larger.json", tmp_path / "comparison.json"
    run("plan", graph_file, "--topology", "h100-1x4", "--batch", "4096", "-o", larger)
    assert run("compare", plan_file, larger, "-o", file).code == 0
    made = Comparison.from_json(file.read_text())
    assert made.per_sample
    assert made.second_shorter is None
    asked = {own.option: (own.first, own.second) for own in made.requested}
    assert asked["topology"] == ("h100-2x4", "h100-1x4")
    assert asked["setup global_batch"] == ("default", "4096")
    assert made.second.batch == 4096
    assert made.first.batch
    per_sample = made.second.step_ns / 4096 - made.first.step_ns / made.first.batch
    assert sum(change.ns for change in made.changes) == pytest.approx(per_sample)
    assert "takes less time for a sample, by" in run("compare", plan_file, larger).out


def test_the_waterfall_and_the_modules_are_printed(
    run: Run, graph_file: Path, plan_file: Path, tmp_path: Path
) -> None:
    pinned, file = tmp_path / "pinned.json", tmp_path / "comparison.json"
    run("plan", graph_file, "--topology", "h100-2x4", "--pin", "layers.0.linear:", "-o", pinned)
    run("compare", plan_file, pinned, "-o", file)
    made = Comparison.from_json(file.read_text())
    said = run("compare", plan_file, pinned).out
    waterfall = said.partition("From the first plan to the second, for a step")[2]
    lines = [line.split("  ")[0].strip() for line in waterfall.splitlines()]
    wanted = ["first plan", *(change.part for change in made.changes), "second plan"]
    assert [line for line in lines if line in wanted] == wanted
    modules = said.partition("By module, for a step on one device")[2]
    assert "layers.* ×2" in modules
    assert "all" in [line.split("  ")[0].strip() for line in modules.splitlines()]


def test_three_plans_are_a_table_with_the_chosen_baseline(
    run: Run, graph_file: Path, plan_file: Path, tmp_path: Path
) -> None:
    others = []
    for batch in ("4096", "512"):
        others.append(tmp_path / f"{batch}.json")
        run("plan", graph_file, "--topology", "h100-2x4", "--batch", batch, "-o", others[-1])
    file = tmp_path / "table.json"
    assert run("compare", plan_file, *others, "--baseline", "2", "-o", file).code == 0
    made = ComparisonTable.from_json(file.read_text())
    assert made.baseline == 1
    asked = {row.name: row.values for row in made.requested}
    assert asked == {"setup global_batch": ("default", "4096", "512")}
    said = run("compare", plan_file, *others).out
    for word in ("Requested differently", "step for a sample", "●", "Differences from 1"):
        assert word in said, word
    assert "Give 2 to 8 plans" in run("compare", plan_file).err
    assert run("compare", plan_file, plan_file, "--baseline", "3").code == 2


def test_the_baseline_of_two_plans_is_the_first_side(
    run: Run, graph_file: Path, plan_file: Path, tmp_path: Path
) -> None:
    larger, file = tmp_path / "larger.json", tmp_path / "comparison.json"
    run("plan", graph_file, "--topology", "h100-2x4", "--batch", "4096", "-o", larger)
    run("compare", plan_file, larger, "--baseline", "2", "-o", file)
    made = Comparison.from_json(file.read_text())
    assert made.first.batch == 4096


def test_a_bare_plan_is_compared_where_the_other_has_its_graph(
    run: Run, plan_file: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.json"
    bare.write_text(read_plan(plan_file).plan.to_json())
    assert run("compare", plan_file, bare).code == 0
    ran = run("compare", bare, bare)
    assert ran.code == 2
    assert "holds a bare plan" in ran.err
    assert run("explain", bare, "--op", "*").code == 2
