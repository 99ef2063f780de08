"""Linking of ES modules: many small modules become one file for each page and one that they share.

A module is wrapped in a function that returns its exports, and stands in exactly one file, so that
its state exists once. The file of the entry holds every module that more than one page reaches, and
exports them; the file of a page holds what that page alone reaches. Text between imports and
exports stays as it is.

The linker knows the forms of import and export that the dashboard has: named imports, namespace
imports, and exported declarations of functions, classes and constants. It refuses every other
form, cyclic imports, and dynamic imports outside the folder of the entry, where addresses would
change.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

IMPORT = re.compile(
    r'^import (?:\* as (?P<namespace>\w+)|\{(?P<names>[^}]*)\}) from "(?P<path>\.[^"]*)";$', re.M
)
EXPORT = re.compile(
    r"^export (?P<declaration>(?:async )?(?:function\*?|class|const) (?P<name>\w+))", re.M
)
STATEMENT = re.compile(r"^(?:import\b(?! *\()|export\b).*", re.M)
DYNAMIC_IMPORT = re.compile(r"\bimport\(")


class LinkError(ValueError):
    """A module has a form that the linker does not know."""


@dataclass(frozen=True, slots=True)
class _Module:
    """A module: the modules that it imports, in order, and its text as a function."""

    name: str
    imports: tuple[str, ...]
    text: str


def link(sources: Mapping[str, str], *, entry: str, pages: Iterable[str]) -> dict[str, str]:
    """The linked files by name, of the entry and of every page; sources by name."""
    modules = {name: _module(name, text) for name, text in sources.items()}
    reached = {page: _in_order(modules, page) for page in dict.fromkeys(pages)}
    uses = Counter(name for names in reached.values() for name in names)
    shared = {name for name, count in uses.items() if count > 1}
    wanted = [*(name for name in uses if name in shared), entry]
    common = _in_order(modules, *wanted)
    exported = ", ".join(_identifier(name) for name in common)
    files = {entry: _joined(modules, common) + f"export {{ {exported} }};\n"}
    for page, names in reached.items():
        if page in common:
            raise LinkError(f"page {page} is imported by another page or by {entry}")
        own = [name for name in names if name not in common]
        outside = {name for module in own for name in modules[module].imports} - set(own)
        names_text = ", ".join(_identifier(name) for name in names if name in outside)
        path = posixpath.relpath(entry, posixpath.dirname(page) or ".")
        path = path if path.startswith(".") else f"./{path}"
        files[page] = f'import {{ {names_text} }} from "{path}";\n' + _joined(modules, own)
        files[page] += f"export const {{ show }} = {_identifier(page)};\n"
    return files


def _module(name: str, source: str) -> _Module:
    imports: list[str] = []

    def imported(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), match["path"]))
        imports.append(path)
        names = match["namespace"] or "{" + match["names"].replace(" as ", ": ") + "}"
        return f"const {names} = {_identifier(path)};"

    text = IMPORT.sub(imported, source)
    exports = [match["name"] for match in EXPORT.finditer(text)]
    text = EXPORT.sub(lambda match: match["declaration"], text)
    if unknown := STATEMENT.search(text):
        raise LinkError(f"{name}: the linker does not know {unknown[0]!r}")
    if DYNAMIC_IMPORT.search(text) and "/" in name:
        raise LinkError(f"{name}: a dynamic import is outside the folder of the entry")
    body = text if text.endswith("\n") else text + "\n"
    returned = f"return {{ {', '.join(exports)} }};\n" if exports else ""
    wrapped = f"// {name}\nconst {_identifier(name)} = (() => {{\n{body}{returned}}})();\n"
    return _Module(name, tuple(imports), wrapped)


def _in_order(modules: Mapping[str, _Module], *roots: str) -> list[str]:
    """The modules that the roots reach, each after those that it imports."""
    ordered: list[str] = []
    open_: list[str] = []

    def visit(name: str) -> None:
        if name in ordered:
            return
        if name in open_:
            raise LinkError(f"cyclic imports: {' -> '.join([*open_, name])}")
        if name not in modules:
            raise LinkError(f"{open_[-1] if open_ else 'the entry'} imports {name}, not a module")
        open_.append(name)
        for imported in modules[name].imports:
            visit(imported)
        open_.pop()
        ordered.append(name)

    for root in roots:
        visit(root)
    return ordered


def _joined(modules: Mapping[str, _Module], names: Sequence[str]) -> str:
    return "".join(modules[name].text for name in names)


def _identifier(name: str) -> str:
    return "$" + name.removesuffix(".js").replace("/", "$")
