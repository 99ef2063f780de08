"""Names that differ only in numbers fold."""

from __future__ import annotations

import pytest

from meshwright.common.name_ranges import block_part, fold, pattern


def labels(*items: tuple[str, str]) -> list[tuple[str, int]]:
    return [(repeat.label, repeat.count) for repeat in fold((n, m, n) for n, m in items)]


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("model.layers.3.norm", "model.layers.*.norm"),
        ("layers.0.experts.12", "layers.*.experts.*"),
        ("conv2d.w1", "conv2d.w1"),
        ("3", "*"),
        ("add_2", "add_2"),
    ],
)
def test_a_number_between_dots_is_an_index(name: str, folded: str) -> None:
    assert pattern(name) == folded


def test_what_is_alike_is_one_line_in_the_order_of_appearance() -> None:
    items = [(f"l.{i}.{op}", op) for i in range(3) for op in ("norm", "mlp")]
    assert labels(("in", "x"), *items) == [("in", 1), ("l.*.norm", 3), ("l.*.mlp", 3)]


def test_what_differs_says_for_which_numbers() -> None:
    items = [(f"l.{i}", "b" if i in (2, 5) else "a") for i in range(8)]
    assert labels(*items) == [("l.{0-1,3-4,6-7}", 6), ("l.{2,5}", 2)]


def test_the_same_names_with_two_meanings_stay_folded() -> None:
    items = [(f"l.{i}", meaning) for i in range(2) for meaning in ("forward", "backward")]
    assert labels(*items) == [("l.*", 2), ("l.*", 2)]


def test_one_of_many_keeps_its_name() -> None:
    assert labels(("l.0", "a"), ("l.1", "a"), ("l.2", "b")) == [("l.{0-1}", 2), ("l.2", 1)]


def test_two_numbers_in_a_name() -> None:
    items = [(f"l.{i}.e.{j}", "a" if i == 0 else "b") for i in range(2) for j in range(2)]
    assert labels(*items) == [("l.0.e.{0-1}", 2), ("l.1.e.{0-1}", 2)]


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("model.layers.3.mlp.up_proj", "model.layers.3.mlp"),
        ("stages.0.1.conv.weight", "stages.0.1.conv"),
        ("layers.0.experts.5.w1", "layers.0.experts"),
        ("layers.0", "layers.0"),
        ("lm_head", "lm_head"),
        ("3.linear", "3.linear"),
    ],
)
def test_a_module_belongs_to_a_part_of_its_block(module: str, part: str) -> None:
    assert block_part(module) == part
