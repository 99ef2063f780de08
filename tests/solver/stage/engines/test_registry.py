"""The registry of engines: what a request can name, what the page says, and a new engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from meshwright.schema.request_options import Solver
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.planning.planner import plan
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.engines.registry import ENGINES, portfolio_of
from meshwright_solver.stage.mesh_space import MeshSpace
from meshwright_solver.stage.search_progress import SearchProgress
from tests.solver.requests import mlp_request
from tests.solver.small_graphs import topology

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "explanation" / "search.md").read_text()


def test_a_request_can_name_every_engine_and_auto() -> None:
    # message_search serves auto alone
    assert {*get_args(Solver)} == {"auto", *ENGINES} - {"message_search"}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
def test_the_page_of_searches_has_a_row_for_every_engine(engine: Engine) -> None:
    row = f"| `{engine.name}` | {engine.decides} | {engine.proves} | {engine.needs} |"
    assert row in PAGE


def test_auto_starts_with_the_engine_that_has_floors_and_ends_with_one_without_limits() -> None:
    auto = portfolio_of("auto")
    assert auto.first.floor is not None
    assert [engine.name for engine in auto.engines] == ["dynamic_programming", "message_search"]
    assert auto.sole is None
    assert auto.fallback is ENGINES["recursive_programming"]
    assert portfolio_of("exact").sole is ENGINES["exact"]


def test_a_new_engine_plans_once_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(space: MeshSpace, budget: SearchBudget, progress: SearchProgress) -> MeshOutcome:
        return replace(ENGINES["exact"].search(space, budget, progress), found_by="toy")

    toy = Engine("toy", decides="choice", proves="optimum", needs="a mesh", search=search)
    monkeypatch.setitem(ENGINES, "toy", toy)
    request = mlp_request(2, topology(2))
    found = plan(request.model_copy(update={"solver": "toy"})).plan
    expected = plan(request).plan
    assert found is not None
    assert expected is not None
    assert found.search.found_by == "toy"
    assert found.cost.objective_ns == pytest.approx(expected.cost.objective_ns, rel=1e-3)
