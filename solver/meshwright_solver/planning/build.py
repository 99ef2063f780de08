"""The build of the planner: a digest of its sources.

A version names a release; between two releases the same request may have another answer. The build
is a digest of all installed files of `solver`, `costmodel` and `meshwright.schema`: modules,
presets and calibrations, without compiled files. Equal builds give equal plans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGES = ("meshwright.schema", "meshwright_costmodel", "meshwright_solver")
COMPILED = ("__pycache__",)
DIGITS = 16  # chosen: hexadecimal digits of the SHA-256; the build need not resist an attack


@cache
def planner_build() -> str:
    """The build of this process, cached; the first call takes 30 ms."""
    return build_of([files(package) for package in PACKAGES])


def build_of(folders: Sequence[Traversable]) -> str:
    """The digest of the relative paths and the bytes of all files in some folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path, file in _files(folder, folder.name):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{path}\n{content}\n".encode())
    return digest.hexdigest()[:DIGITS]


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_file():
            yield f"{path}/{entry.name}", entry
        elif entry.is_dir() and entry.name not in COMPILED:
            yield from _files(entry, f"{path}/{entry.name}")
