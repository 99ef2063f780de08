from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

from meshwright.common.files import read_document
from meshwright.schema.cost_graph import CostGraphFile
from meshwright_solver.search.core.cost_graph import evaluate_choice
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.documents.graph_of_problem import graph_of_problem
from meshwright_solver.search.lagrangian.lagrangian_search import lagrangian_search

ROOT = Path(__file__).parents[2]
G = ROOT / "tests/data/iopddl/asplos-2025-iopddl-G.json.gz"
BEST_OF_G = 217_039

# Two nodes that live together at time 1 only. Of the four pairs (0, 0) is forbidden, (0, 1) costs
# 1 + 20 + 5 = 26, (1, 0) costs 2 + 10 + 3 = 15 and (1, 1) costs 2 + 20 + 0 = 22.
TINY = {
    "nodes": {
        "intervals": [[0, 2], [1, 3]],
        "costs": [[1, 2], [10, 20]],
        "usages": [[1, 6], [5, 2]],
    },
    "edges": {"nodes": [[0, 1]], "costs": [[10**18, 5, 3, 0]]},
    "usage_limit": 11,
}


def written(folder: Path, problem: object) -> Path:
    file = folder / "tiny.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"problem": problem}).encode()))
    return file


def command(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.iopddl", str(file), "--seconds", "60", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )


def test_prints_one_line_with_the_optimum(tmp_path: Path) -> None:
    done = command(written(tmp_path, TINY))
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    # (1, 0) takes 6 + 5 = 11 at time 1
    assert (answer["cost"], answer["solution"], answer["feasible"]) == (15, [1, 0], True)
    assert answer["lower_bound"] == 15.0
    assert 0 < answer["seconds"] < 60


def test_prints_the_bare_list_for_the_contest(tmp_path: Path) -> None:
    # a limit of 10 leaves (1, 1) with 6 + 2 and (0, 1) with 1 + 2 bytes
    done = command(written(tmp_path, {**TINY, "usage_limit": 10}), "--solution-only")
    assert done.stdout == "[1, 1]\n"


def test_says_when_nothing_is_within_the_limit(tmp_path: Path) -> None:
    done = command(written(tmp_path, {**TINY, "usage_limit": 2}))
    assert done.returncode == 3
    assert json.loads(done.stdout)["feasible"] is False


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    missing = command(tmp_path / "none.json")
    assert missing.returncode == 2
    assert "none.json cannot be read" in missing.stderr


def test_a_few_seconds_on_instance_g() -> None:
    graph = graph_of_problem(read_document(G, CostGraphFile).problem)
    outcome = lagrangian_search(graph, SearchBudget(seconds=6.0))
    assert outcome.choice is not None
    found = evaluate_choice(graph, outcome.choice)
    assert graph.memory_limit_bytes is not None
    assert found.memory_bytes <= graph.memory_limit_bytes
    assert outcome.lower_bound_ns <= BEST_OF_G <= found.cost_ns == outcome.cost_ns
