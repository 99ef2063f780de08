"""The build of the planner: which sources its answers are from.

A version names a release; between two releases the same request may have another answer. The build
is a digest of all files of `solver`, `costmodel` and `meshwright.schema` as they are installed:
modules, presets and calibrations, but nothing that is compiled. Equal builds give equal plans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGES = ("meshwright.schema", "meshwright_costmodel", "meshwright_solver")
COMPILED = ("__pycache__",)
DIGITS = 16  # chosen: of the SHA-256, in hexadecimal; nobody looks for two sources of one build


@cache
def planner_build() -> str:
    """The build that this process runs; 30 ms, once."""
    return build_of([files(package) for package in PACKAGES])


def build_of(folders: Sequence[Traversable]) -> str:
    """The digest of the files in some folders: of their paths there and their bytes."""
    found = hashlib.sha256()
    for folder in folders:
        for path, file in _files(folder, folder.name):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            found.update(f"{path}\n{content}\n".encode())
    return found.hexdigest()[:DIGITS]


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for own in sorted(folder.iterdir(), key=lambda own: own.name):
        if own.is_file():
            yield f"{path}/{own.name}", own
        elif own.is_dir() and own.name not in COMPILED:
            yield from _files(own, f"{path}/{own.name}")
