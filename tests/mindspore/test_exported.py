"""MindSpore 2.10 compiles exported strategies as they are, and moves what the plan moves."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.mindspore.cases import (
    CASES,
    SETUP,
    Collective,
    forward_collectives,
    network,
    parameter_collectives,
    row,
)
from tests.mindspore.children import compiled

DOCS = (Path(__file__).parents[2] / "docs" / "how-to" / "mindspore.md").read_text()
TRAINED = ("gpt-dp2-tp4", "reid", "reid-level2", "widedeep")


def moved(found: dict[str, Any]) -> Counter[Collective]:
    return Counter((kind, ways, count) for kind, ways, count in found["collectives"])


def _without_number(operator: str) -> str:
    """MindSpore numbers operators of a cell as it asks for their names, Layouts last."""
    return operator.rpartition("-op")[0]


def check_forward(name: str, found: dict[str, Any]) -> None:
    """All that the plan moves, to the byte; beside it what was said to be moved otherwise."""
    exact, kinds = forward_collectives(name)
    actual = moved(found)
    assert not exact - actual, "the plan moves what MindSpore does not"
    assert Counter(kind for kind, _, _ in (actual - exact).elements()) == kinds


@pytest.mark.parametrize("name", CASES)
def test_every_operator_has_the_exported_strategy_and_nothing_else_is_inserted(
    name: str, tmp_path: Path
) -> None:
    exported = network(name)
    assert not exported.refused
    found = compiled(CASES[name].model, exported.model_dump_json(), "shard", tmp_path)
    wanted = Counter(
        (_without_number(operator), str([list(cuts) for cuts in own.in_strategy]))
        for operator, path in exported.operators.items()
        if (own := exported.primitives[path]).in_layout is None  # Layouts are not answered
    )
    answered = Counter(
        (_without_number(operator), str(cuts)) for operator, cuts in found["strategies"].items()
    )
    beside = Counter(operator for operator, _ in (answered - wanted).elements())
    assert not wanted - answered
    assert beside == {"Default/_VirtualDataset": 1}
    check_forward(name, found)
    assert row(name, Counter(kind for kind, _, _ in moved(found).elements())) in DOCS


@pytest.mark.parametrize("name", CASES)
def test_mindspore_reads_the_strategy_file_to_the_same_program(name: str, tmp_path: Path) -> None:
    exported = network(name)
    file = tmp_path / "strategies.json"
    file.write_text(json.dumps(exported.strategy_file()))
    text = exported.model_dump_json()
    found = compiled(CASES[name].model, text, f"LOAD={file}", tmp_path)
    check_forward(name, found)


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_and_parameters_move_as_planned(name: str, tmp_path: Path) -> None:
    found = compiled(CASES[name].model, network(name).model_dump_json(), "trained", tmp_path)
    planned = parameter_collectives(name)
    if name == "gpt-dp2-tp4":
        # vectors that all devices repeat: MindSpore adds the gradients over all of them, where
        # the plan takes parts of them over tp first
        planned = Counter({key: n for key, n in planned.items() if key[:2] == ("all_reduce", 2)})
    assert planned
    assert not planned - moved(found)


def test_the_setup_reaches_the_context() -> None:
    context = network("reid-level2").context
    assert context["enable_alltoall"] is SETUP.allow_all_to_all
    assert context["parallel_optimizer_config"]["optimizer_level"] == "level2"
    assert network("reid-level2").whole
