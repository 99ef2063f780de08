"""The autograd functions that a trace applies.

torch.export traces the forward of an autograd function and drops its backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.autograd.function import _SingleLevelFunction


@contextmanager
def autograd_functions() -> Iterator[dict[str, None]]:
    """A context that collects the names of autograd functions, except those of PyTorch."""
    names: dict[str, None] = {}

    def apply(cls: type[_SingleLevelFunction], *args: Any, **kwargs: Any) -> Any:
        if not cls.__module__.startswith("torch."):
            names[f"{cls.__module__}.{cls.__qualname__}"] = None
        return super(_SingleLevelFunction, cls).apply(*args, **kwargs)

    # modules often hold a bound `apply`, which calls that of this base class
    _SingleLevelFunction.apply = classmethod(apply)  # type: ignore[assignment]  # removed below
    try:
        yield names
    finally:
        del _SingleLevelFunction.apply
