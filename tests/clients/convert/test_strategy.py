"""Strategies of ops as MindSpore writes them; the samples of its design text, Z = (X x W) x V."""

from __future__ import annotations

import itertools
import random

import pytest

from meshwright.convert import (
    DeviceGrid,
    device_matrix,
    strategy_of_cuts,
    strategy_of_layouts,
    to_strategy,
)
from meshwright.convert.strategy import Cuts, Sizes
from meshwright.schema import ConversionError, OpPlan, parse_notation
from tests.clients.convert.held import grid

MATMUL = "m k, k n -> m n"
HEADS = "b s (h d), (h d) n -> b s n"


def op(rule: str | None, partial: tuple[str, ...] = (), **strategy: str) -> OpPlan:
    return OpPlan.model_validate(
        {
            "op": "layer.0",
            "kind": "matmul",
            "rule": rule,
            "strategy": {factor: axes.split("+") for factor, axes in strategy.items()},
            "partial": dict.fromkeys(partial, 0),
        }
    )


@pytest.mark.parametrize(
    ("cuts", "strategy", "matrix"),
    [
        # sample 1: rows of X over all 4, then the columns of V over all 4
        (((4, 1), (1, 1)), {"m": ("a",)}, (4, 1, 1)),
        (((1, 1), (1, 4)), {"n": ("a",)}, (1, 1, 4)),
        # sample 2: columns of W over all 4, then rows of Y over all 4: the same two in turn
        # sample 3: 2 x 2, first rows and columns, then rows and the summed factor
        (((2, 1), (1, 2)), {"m": ("dp",), "n": ("mp",)}, (2, 1, 2)),
        (((2, 2), (2, 1)), {"m": ("dp",), "k": ("mp",)}, (2, 2, 1)),
    ],
)
def test_the_samples_of_the_design_text(
    cuts: Cuts, strategy: dict[str, tuple[str, ...]], matrix: tuple[int, ...]
) -> None:
    devices = grid(a=4) if "a" in str(strategy) else grid(dp=2, mp=2)
    assert strategy_of_cuts(cuts, MATMUL, devices) == strategy
    assert device_matrix(cuts, MATMUL, 4) == matrix
    found = to_strategy(op(MATMUL, **{f: axes[0] for f, axes in strategy.items()}), devices)
    assert (found.cuts, found.keeps_ranks) == (cuts, True)
    assert strategy_of_layouts(found.layouts, MATMUL, devices) == strategy


def test_devices_that_are_left_repeat_on_the_right() -> None:
    assert device_matrix(((2, 1), (1, 4)), MATMUL, 16) == (2, 1, 4, 2)
    devices = grid(a=2, b=4, c=2)
    assert strategy_of_cuts(((2, 1), (1, 4)), MATMUL, devices) == {"m": ("a",), "n": ("b",)}
    with pytest.raises(ConversionError, match="need 8 devices, and 12"):
        device_matrix(((2, 1), (1, 4)), MATMUL, 12)


def test_axes_in_another_order_keep_the_cuts_and_not_the_ranks() -> None:
    devices = grid(dp=2, mp=4)
    swapped = to_strategy(op(MATMUL, m="mp", n="dp"), devices)
    assert (swapped.cuts, swapped.keeps_ranks) == (((4, 1), (1, 2)), False)
    assert swapped.layouts == (("mp", "None"), ("None", "dp"))
    assert strategy_of_layouts(swapped.layouts, MATMUL, devices) == {"m": ("mp",), "n": ("dp",)}
    # repeated computation on the left: MindSpore would put it on the right
    assert not to_strategy(op(MATMUL, m="mp"), devices).keeps_ranks
    assert to_strategy(op(MATMUL, m="dp"), devices).keeps_ranks
    elsewhere = devices.model_copy(update={"ranks": (0, 2, 4, 6, 1, 3, 5, 7)})
    assert not to_strategy(op(MATMUL, m="dp"), elsewhere).keeps_ranks


@pytest.mark.parametrize(
    "rule", [MATMUL, HEADS, "b g s d!, b g t@s d! -> b g s d!", "n^ c -> n^ c"]
)
def test_strategies_come_back_from_layouts_and_cuts_from_strategies(rule: str) -> None:
    chance = random.Random(3)
    devices = grid(a=2, b=3, c=2)
    sizes = {"h": 6, "d": 12}
    parsed = parse_notation(rule)
    free = [f for f in parsed.factors if f not in parsed.unsharded and f not in parsed.follows]
    said = 0
    for _ in range(150):
        names = list(devices.names)
        chance.shuffle(names)
        strategy: dict[str, str] = {}
        for name in names[: chance.randint(0, 3)]:
            factor = chance.choice(free)
            strategy[factor] = f"{strategy[factor]}+{name}" if factor in strategy else name
        given = op(rule, **strategy)
        try:
            found = to_strategy(given, devices, sizes=sizes)
        except ConversionError:
            assert rule == HEADS
            continue
        said += 1
        back = strategy_of_layouts(found.layouts, rule, devices, sizes=sizes)
        assert back == given.strategy
        if found.keeps_ranks:
            assert strategy_of_cuts(found.cuts, rule, devices, sizes=sizes) == given.strategy
    assert said > 50


def test_all_cuts_of_a_product_come_back() -> None:
    devices = grid(a=2, b=3, c=2)
    said = 0
    for m, k, n in itertools.product((1, 2, 3, 4, 6, 12), repeat=3):
        try:
            strategy = strategy_of_cuts(((m, k), (k, n)), MATMUL, devices)
        except ConversionError:
            continue
        said += 1
        given = OpPlan(op="o", kind="matmul", rule=MATMUL, strategy=strategy)
        found = to_strategy(given, devices)
        assert (found.cuts, found.keeps_ranks) == (((m, k), (k, n)), True)
    # the axes 2, 3, 2 in their order: 0 to 3 of them, in runs for m, k and n: C(r + 2, 2) ways
    assert said == 1 + 3 + 6 + 10


def test_a_product_dim_is_cut_from_the_outside() -> None:
    devices = grid(a=2, b=4)
    sizes: Sizes = {"h": 2, "d": 8}
    used_up = to_strategy(op(HEADS, h="a", d="b"), devices, sizes=sizes)
    assert used_up.cuts == ((1, 1, 8), (8, 1))
    assert strategy_of_cuts(used_up.cuts, HEADS, devices, sizes=sizes) == {"h": ("a",), "d": ("b",)}
    with pytest.raises(ConversionError, match=r"op 'layer.0': its factor 'd' is cut over b before"):
        to_strategy(op(HEADS, d="b"), devices, sizes=sizes)
    with pytest.raises(ConversionError, match="before the outer factors"):
        to_strategy(op(HEADS, h="a", d="b"), devices)  # nobody says that two heads are all
    with pytest.raises(ConversionError, match="3 parts of a dim remain"):
        strategy_of_cuts(((1, 1, 6), (6, 1)), HEADS, devices, sizes={"h": 2, "d": 8})


@pytest.mark.parametrize(
    ("given", "sizes", "why"),
    [
        (op(None), {}, "its kind 'matmul' has no rule"),
        (op("b k -> b k", partial=("a",)), {}, "partial sums over a pass through it"),
        (op("b -> b v", v="a"), {}, "'v' is cut over a and no input has it"),
        (op("t (h q|h k) -> t h", h="a"), {}, "'h' is cut in every segment of a dim"),
        (op(MATMUL, m="a"), {"m": 7}, "'m' of 7 does not divide by 2"),
    ],
)
def test_what_mindspore_cannot_say_names_op_and_reason(
    given: OpPlan, sizes: Sizes, why: str
) -> None:
    with pytest.raises(ConversionError, match=f"op 'layer.0': .*{why}"):
        to_strategy(given, grid(a=2, b=4), sizes=sizes)


@pytest.mark.parametrize(
    ("cuts", "rule", "why"),
    [
        (((2, 2), (1, 1)), MATMUL, "split its factor 'k' into 2 and into 1"),
        (((2,), (1, 1)), MATMUL, r"inputs of \[2, 2\] dims"),
        (((3, 1), (1, 1)), MATMUL, "3 parts on 'm', which no axes"),
        (((2, 1), (1, 1)), "b h!, h! n -> b n", None),
        (((1, 2), (2, 1)), "b h!, h! n -> b n", "'h' must not be split"),
        (((2, 1), (1, 1)), "s d, t@s d -> s d", "'t' is split like 's'"),
        (((2,),), "(h q|h k) -> h", "2 segments"),
        (((2, 1),), "1 b -> b", "cannot be split into 2"),
    ],
)
def test_cuts_that_do_not_fit_the_rule_are_named(cuts: Cuts, rule: str, why: str | None) -> None:
    devices: DeviceGrid = grid(a=2, b=4)
    if why is None:
        assert strategy_of_cuts(cuts, rule, devices) == {"b": ("a",)}
        return
    with pytest.raises(ConversionError, match=why):
        strategy_of_cuts(cuts, rule, devices)


def test_layouts_that_contradict_each_other_are_named() -> None:
    devices = grid(a=2, b=2)
    with pytest.raises(ConversionError, match="'k' is cut over b in one input and over a"):
        strategy_of_layouts((("None", "a"), ("b", "None")), MATMUL, devices)


def test_an_op_without_inputs_has_no_cuts() -> None:
    assert to_strategy(op(" -> b s"), grid(a=2)).cuts == ()
