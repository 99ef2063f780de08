"""The source files of the dashboard and the paths of its pages.

A page is a document whose modules request the data from the API. It names its files by the
addresses of `meshwright_service.api.page_documents`. Files and pages hold no tenant data and need
no key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from meshwright.schema import NotFound

FILES = files("meshwright_service") / "dashboard"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cache-Control": "no-cache",  # revalidated by ETag
}
PAGES = (
    "/",
    "/new",
    "/plans/{plan}",
    "/plans/{plan}/graph",
    "/plans/{plan}/why",
    "/plans/{plan}/communication",
    "/plans/{plan}/tensor",
    "/plans/{plan}/schedule",
    "/plans/{plan}/timeline",
    "/plans/{plan}/front",
    "/plans/{plan}/what-if",
    "/plans/{plan}/launch",
    "/jobs/{job}",
    "/jobs/{job}/what-if",
    "/compare",
    "/graphs",
    "/graphs/{graph}/plan",
    "/graphs/{graph}/sweep",
    "/sweeps",
    "/sweeps/{sweep}",
    "/topologies",
    "/topologies/{topology}",
    "/calibrations/{calibration}",
    "/agents",
)
PAGE = re.compile("|".join(re.sub(r"\{\w+\}", "[^/]+", path) for path in PAGES))
TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
NAME = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+){0,2}\.(css|html|js|svg)")


@dataclass(frozen=True, slots=True)
class File:
    """A file of the dashboard."""

    content: bytes
    media_type: str
    digest: str

    @classmethod
    def of(cls, name: str, content: bytes) -> File:
        """A file whose media type is that of its name."""
        media_type = TYPES[name.rsplit(".")[-1]]
        return cls(content, media_type, hashlib.sha256(content).hexdigest())


def is_open(path: str) -> bool:
    """Whether a path is a page or a file of the dashboard."""
    return path.startswith(("/dashboard/", "/static/")) or PAGE.fullmatch(path) is not None


@cache
def file(name: str) -> File:
    """A file by its path in the dashboard's folder; raises NotFound."""
    if NAME.fullmatch(name):
        path = FILES.joinpath(*name.split("/"))
        if path.is_file():
            return File.of(name, path.read_bytes())
    raise NotFound(f"the dashboard has no file {name[:80]!r}")


def names(suffix: str) -> list[str]:
    """The paths of all files with a suffix in the dashboard's folder, sorted."""
    return sorted(_names(FILES, "", suffix))


def _names(folder: Traversable, prefix: str, suffix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _names(entry, f"{prefix}{entry.name}/", suffix)
        elif entry.name.endswith(suffix):
            yield prefix + entry.name
