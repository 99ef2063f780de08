"""The order of the whole suite, how much of it is drawn, and the signals its processes inherit."""

from __future__ import annotations

import gc
import signal
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import httpx
import httpx2
import pytest
from hypothesis import settings

from tests.capture.rotation import FIFTH, FIFTHS

# What these set up takes minutes. Processes that have nothing left to do take tests from the end of
# what another one has before it: a module that is divided is set up again by each of them.
FIRST = ("runtime", "dashboard")
TESTS = Path(__file__).parent
SHARE = 8  # chosen: of a property's examples `make test` draws an eighth, `make test-long` all
SETTINGS = "_hypothesis_internal_use_settings"  # where `@settings` leaves them

# `httpx.get(...)` waits five seconds by default, which a busy machine can take to answer.
for client in (httpx, httpx2):  # the second is that of the test client of starlette
    client._config.DEFAULT_TIMEOUT_CONFIG.__init__(120)  # chosen

settings.register_profile("tests", deadline=None)  # of an example: a busy machine takes its time
settings.load_profile("tests")

# A shell starts background jobs with SIGINT ignored, and every child inherits that: commands under
# test would not end at Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage collection while modules are imported, nor later of what they leave."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before what has the mark `long`, or has not, is left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Folders that share much come first, the others after them; else all stays as it is."""

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(TESTS).parts[0]
        return FIRST.index(folder) if folder in FIRST else len(FIRST)

    items.sort(key=place)
    _rotate(items)
    properties = [
        item
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item.function, SETTINGS)
    ]
    if config.option.markexpr == "long":
        for item in properties:
            item.add_marker("long")
        return
    for function in {item.function for item in properties}:
        whole: settings = getattr(function, SETTINGS)
        setattr(function, SETTINGS, settings(whole, max_examples=-(-whole.max_examples // SHARE)))


def _rotate(items: list[pytest.Item]) -> None:
    """Cases of functions with the mark `rotating` that are not of the day's fifth are long."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("rotating") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_function in cases.values():
        turns = min(FIFTHS, len(of_function))
        for place, item in enumerate(of_function):
            if place % turns != FIFTH % turns:
                item.add_marker("long")


def pytest_report_header() -> str:
    return f"fifth of rotating cases: {FIFTH} (ARCHITECTURES_FIFTH)"
