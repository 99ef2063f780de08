"""Garbage collection: Python's cyclic collector, disabled for data without cycles."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def uncollected(make: Callable[P, T]) -> Callable[P, T]:
    """Disable garbage collection while the function runs.

    For functions that create hundreds of thousands of objects without reference cycles. The
    repeated collections would take as long as the creation.
    """

    @wraps(make)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return make(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return wrapper


def settle() -> None:
    """Exclude all current objects from garbage collection; reference counts still free them.

    For large long-lived data: one collection of hundreds of thousands of objects takes seconds.
    """
    gc.collect(1)  # young objects include garbage
    gc.freeze()
