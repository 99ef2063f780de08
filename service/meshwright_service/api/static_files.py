"""The files of the dashboard and the paths of its pages.

Every page is the same document, whose modules request the data from the API. Files and pages hold
no tenant data and need no key.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

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


def is_open(path: str) -> bool:
    """Whether a path is a page or a file of the dashboard."""
    return path.startswith("/dashboard/") or PAGE.fullmatch(path) is not None


@cache
def file(name: str) -> File:
    """A file by its path in the dashboard's folder; raises NotFound."""
    if NAME.fullmatch(name):
        path = FILES.joinpath(*name.split("/"))
        if path.is_file():
            content = path.read_bytes()
            kind = TYPES[name.rsplit(".")[-1]]
            return File(content, kind, hashlib.sha256(content).hexdigest())
    raise NotFound(f"the dashboard has no file {name[:80]!r}")
