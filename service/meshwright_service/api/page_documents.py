"""The documents of the dashboard's pages, and the immutable files that they name.

A page needs five files: the style sheets as one, the theme, the icon, and two linked modules: one
that all pages share and one of its own (`meshwright_service.api.module_linker`). Their address has
the digest of all of them: an upgrade changes every address, and browsers keep files for a year.
The document of a page names all five, so that the browser requests them at the same time.

An open page of another version asks for files of a digest that this process does not have. The
answer is 404, and the router of that page offers to reload it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from meshwright.schema import NotFound
from meshwright_service.api import static_files
from meshwright_service.api.module_linker import link
from meshwright_service.api.static_files import File

HEADERS = {**static_files.HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
ENTRY, THEME, STYLE, ICON = "main.js", "theme.js", "style.css", "icon.svg"
ROUTE = re.compile(r'\["(?P<path>/[^"]*)", "\./(?P<module>[^"]+)"\]')
STYLE_SHEETS = re.compile(r'(<link rel="stylesheet" href="/dashboard/([^"]+)">\n)+')
STYLE_SHEET = re.compile(r'<link rel="stylesheet" href="/dashboard/([^"]+)">')
LOCAL_LINK = re.compile(r'(?:href|src)="(?=/)')
DIGEST_LENGTH = 16  # chosen: 64 bits tell the versions of a dashboard apart


@dataclass(frozen=True, slots=True)
class Pages:
    """The files of one version of the dashboard by name, and its documents by the page's path."""

    digest: str
    files: Mapping[str, File]
    documents: Mapping[str, File]

    def file(self, digest: str, name: str) -> File:
        """A file by its address; raises NotFound."""
        if digest != self.digest:
            raise NotFound(
                f"this version of the dashboard has no files of digest {digest[:80]!r}. "
                "Reload the page"
            )
        if name not in self.files:
            raise NotFound(f"the dashboard has no file {name[:80]!r}")
        return self.files[name]


@cache
def pages(root_path: str = "") -> Pages:
    """The dashboard of this process. root_path: where a reverse proxy serves it."""
    index = static_files.file("index.html").content.decode()
    modules = _modules()
    files = _files(index, modules)
    digest = _digest(files)
    documents = {
        path: _document(index, digest, modules.get(_shape(path)), root_path=root_path)
        for path in static_files.PAGES
    }
    return Pages(digest, files, documents)


def _modules() -> dict[str, str]:
    """The module of each page by the shape of its path."""
    routes = static_files.file("routes.js").content.decode()
    return {_shape(match["path"]): match["module"] for match in ROUTE.finditer(routes)}


def _shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def _files(index: str, modules: Mapping[str, str]) -> dict[str, File]:
    names = [name for name in static_files.names(".js") if name != THEME]
    sources = {name: static_files.file(name).content.decode() for name in names}
    texts = link(sources, entry=ENTRY, pages=modules.values())
    files = {name: File.of(name, text.encode()) for name, text in texts.items()}
    sheets = [static_files.file(match[1]).content for match in STYLE_SHEET.finditer(index)]
    files[STYLE] = File.of(STYLE, b"".join(sheets))
    return files | {name: static_files.file(name) for name in (THEME, ICON)}


def _digest(files: Mapping[str, File]) -> str:
    text = "\n".join(f"{name} {files[name].digest}" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def _document(index: str, digest: str, module: str | None, *, root_path: str) -> File:
    """The document of a page; it preloads the page's module. Scripts read the root path from it."""
    links = [f'<link rel="stylesheet" href="/dashboard/{STYLE}">\n']
    if module is not None:
        links.append(f'<link rel="modulepreload" href="/dashboard/{module}">\n')
    text = STYLE_SHEETS.sub("".join(links), index).replace("/dashboard/", f"/static/{digest}/")
    if root_path:
        text = LOCAL_LINK.sub(rf"\g<0>{root_path}", text)
        text = text.replace("<html ", f'<html data-root-path="{root_path}" ')
    return File.of("index.html", text.encode())
