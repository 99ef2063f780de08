"""A plan that wastes most of its devices says so in the first line of every command."""

from __future__ import annotations

from pathlib import Path

from tests.clients.conftest import Run
from tests.solver.layered import layered

SAID = (
    "99,992 of 100,000 devices repeat the work of others: the batch of 8 cannot be cut further. "
    "Use at most 8 devices, or a larger batch."
)


def test_the_commands_say_it_first(run: Run, tmp_path: Path) -> None:
    graph, file = tmp_path / "graph.json", tmp_path / "plan.json"
    graph.write_text(layered(4, batch=8).to_json())
    words = ("plan", graph, "--topology", "h100-12500x8", "--batch", "8")
    for ran in (run(*words), run(*words, "-o", file), run("show", file)):
        assert ran.code == 0
        assert ran.out.splitlines()[0] == SAID


def test_plans_that_use_their_devices_begin_with_their_name(run: Run, tmp_path: Path) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(layered(4, batch=8).to_json())
    ran = run("plan", graph, "--topology", "h100-1x8", "--batch", "8")
    assert ran.out.startswith("Plan ")
