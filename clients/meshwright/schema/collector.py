"""Python's collector of cyclic garbage, kept away from what has none."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def uncollected(make: Callable[P, T]) -> Callable[P, T]:
    """Run without the collector: for functions that make hundreds of thousands of objects.

    They refer to each other in no circle, and the collector would look through all that are there
    again and again, which takes as long as making them.
    """

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return make(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return made


def settle() -> None:
    """The collector looks no more at what is there now, which goes when nothing refers to it.

    For what was made by the hundred thousand and is kept: looking through it once takes seconds.
    """
    gc.collect(1)  # of what is young some is garbage
    gc.freeze()
