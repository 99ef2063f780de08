"""Functions by name: `pkg.module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from meshwright.schema.errors import GraphError


def named_function(spec: str) -> Callable[[], object]:
    """The function `pkg.module:function`; GraphError for a missing module or function."""
    path, _, name = spec.partition(":")
    if not name or not all(part.isidentifier() for part in path.split(".")):
        raise GraphError(f"{spec!r} is not of the form pkg.module:factory")
    try:
        module = importlib.import_module(path)
    except ImportError as failure:
        raise GraphError(f"cannot import {path!r}: {failure}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise GraphError(f"{path} has no function {name!r}")
    return function  # type: ignore[no-any-return]  # its result is checked where it is called
