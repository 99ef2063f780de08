"""Substitutes are in place within their context alone, for one thread at a time."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from meshwright.capture.substitution import substituted


class Base:
    def name(self):
        return "base"


class Child(Base):
    pass


def test_own_and_inherited_attributes_are_restored():
    with substituted((Child, "name", lambda _: "child"), (Base, "name", lambda _: "other")):
        assert (Child().name(), Base().name()) == ("child", "other")
    assert "name" not in vars(Child)
    assert Child().name() == "base"


def test_attributes_are_restored_after_an_error():
    with pytest.raises(AttributeError), substituted((Base, "name", None), (Base, "absent", 1)):
        pass
    assert Base().name() == "base"


def test_a_second_thread_waits_for_the_first():
    is_started, order = Event(), []

    def first():
        with substituted((Base, "name", lambda _: "first")):
            is_started.set()
            order.append(Base().name())

    def second():
        is_started.wait(10)
        with substituted((Base, "name", lambda _: "second")):
            order.append(Base().name())

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(second), pool.submit(first)]:
            future.result(timeout=10)
    assert order == ["first", "second"]
    assert Base().name() == "base"
