"""The example graphs of the distribution, named `example:NAME` in place of a file."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from meshwright.schema import NotFound

PREFIX = "example:"
_SUFFIX = ".json.gz"


def example_names() -> tuple[str, ...]:
    """The names of the example graphs, sorted."""
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in _folder().glob(f"*{_SUFFIX}")))


def located(path: Path) -> Path:
    """The file that a path names: for `example:NAME` without such a file, an example graph.

    Raises NotFound for an unknown example.
    """
    name = str(path)
    if not name.startswith(PREFIX) or os.path.exists(path):
        return path
    example = name.removeprefix(PREFIX)
    names = example_names()
    if example not in names:
        raise NotFound(f"there is no example graph {example[:80]!r}. Use one of {', '.join(names)}")
    return _folder() / f"{example}{_SUFFIX}"


def _folder() -> Path:
    return Path(str(files("meshwright"))) / "example_graphs"
