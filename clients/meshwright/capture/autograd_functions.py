"""The autograd functions that a trace applies.

torch.export traces the forward of an autograd function and drops its backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.autograd.function import _SingleLevelFunction

from meshwright.capture.substitution import substituted


@contextmanager
def autograd_functions() -> Iterator[dict[str, None]]:
    """A context that collects the names of autograd functions, except those of PyTorch."""
    names: dict[str, None] = {}

    base: Any = _SingleLevelFunction

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not cls.__module__.startswith("torch."):
            names[f"{cls.__module__}.{cls.__qualname__}"] = None
        return super(base, cls).apply(*args, **kwargs)

    # modules often hold a bound `apply`, which calls that of this base class
    with substituted((base, "apply", classmethod(apply))):
        yield names
