"""The collector of cycles: off while something is made, and afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from meshwright.schema.garbage_collection import uncollected


@uncollected
def is_on() -> bool:
    return gc.isenabled()


@uncollected
def nested() -> tuple[bool, bool]:
    return is_on(), gc.isenabled()


@uncollected
def failing() -> None:
    raise KeyError


def test_it_is_off_inside_also_behind_an_inner_call_and_on_again_behind():
    assert gc.isenabled()
    assert nested() == (False, False)
    assert gc.isenabled()


def test_it_is_on_again_behind_an_error():
    with pytest.raises(KeyError):
        failing()
    assert gc.isenabled()


def test_who_has_turned_it_off_finds_it_off():
    gc.disable()
    try:
        is_on()
        assert not gc.isenabled()
    finally:
        gc.enable()
