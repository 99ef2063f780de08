"""The options of a request on the command line, and docs/how-to/steering.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from meshwright.cli.pins import parse_pin
from meshwright.cli.wishes import constraints_of, optimizer_parallel_of, setup_of
from meshwright.schema import OptimizerParallel, Pin, RequestError
from meshwright.schema.dim_cuts import show_cuts
from tests.clients.conftest import Run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "steering.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    meshwright (plan .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_run(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    ran = run(*shlex.split(command))
    assert ran.code == 0, ran.err
    assert ("pins  " in ran.out) == ("--pin" in command)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.*:n=gpu", {"strategy": {"n": ("gpu",)}}),
        ("a.*:", {"strategy": {}}),
        ("a.*:data_parallel", {"data_parallel": True}),
        ("a.*:((8,1),(1,4))", {"inputs": ((8, 1), (1, 4))}),
        ("a.*: ( (dp, 1) , (1,tp+cp) )", {"inputs": ((("dp",), 1), (1, ("tp", "cp")))}),
        ("a.*:(_,(1,))->((2,8),)", {"inputs": (None, (1,)), "outputs": ((2, 8),)}),
        ("a.*:->((tp,),_)", {"outputs": ((("tp",),), None)}),
        ("a.*:((),)", {"inputs": ((),)}),
    ],
)
def test_pins_as_they_are_typed(text: str, said: dict[str, Any]) -> None:
    pin = parse_pin(text)
    assert pin == Pin(op="a.*", **said)
    assert Pin.model_validate(pin.model_dump(mode="json")) == pin


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:(8,1)", "not a list of cuts"),
        ("a:((8,1)", "not a list of cuts"),
        ("a:((8,0),)", "1 part at least"),
        ("a:((8,,1),)", "neither axes nor a number"),
        ("a:((dp tp),)", "neither axes nor a number"),
        ("a:((1,),)->x", "not a list of cuts"),
    ],
)
def test_pins_that_mean_nothing(text: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        parse_pin(text)


def test_cuts_are_shown_as_they_are_typed() -> None:
    pin = parse_pin("a:((dp,1,tp+cp),(4,))")
    assert pin.inputs is not None
    assert [show_cuts(own) for own in pin.inputs if own is not None] == ["(dp,1,tp+cp)", "(4,)"]


def test_a_setup_may_say_how_inputs_are_loaded() -> None:
    def loaded(dataset: str) -> Any:
        return setup_of(None, seq=None, dataset=dataset).dataset

    assert loaded("data_parallel") == "data_parallel"
    assert loaded("((8,1),_)") == ((8, 1), None)
    with pytest.raises(RequestError, match="--dataset"):
        loaded("((8,1)")


def test_a_constraint_that_is_out_of_bounds_names_its_option() -> None:
    assert constraints_of(
        fully_use_devices=True, elementwise_follow=False, slice_alignment=None
    ).fully_use_devices
    with pytest.raises(RequestError, match=r"--slice-alignment.*1024"):
        constraints_of(fully_use_devices=False, elementwise_follow=False, slice_alignment=4096)


def test_what_is_said_of_parameters_at_rest() -> None:
    assert optimizer_parallel_of(None, None, None, None) is None
    said = optimizer_parallel_of(1, 8, 0, True)
    assert said == OptimizerParallel(
        level=1, shard_size=8, threshold_kb=0, gradient_accumulation_shard=True
    )
    with pytest.raises(RequestError, match="--optimizer-level"):
        optimizer_parallel_of(4, None, None, None)
    with pytest.raises(RequestError, match="level 2 shards gradients"):
        optimizer_parallel_of(2, None, None, False)
    with pytest.raises(RequestError, match="level 0 shards nothing"):
        optimizer_parallel_of(0, 8, None, None)
