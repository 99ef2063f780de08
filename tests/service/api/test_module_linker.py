"""Linking of modules: each in one file, after what it imports, with its exports."""

from __future__ import annotations

import re

import pytest

from meshwright_service.api import static_files
from meshwright_service.api.module_linker import LinkError, link

SOURCES = {
    "main.js": 'import { go } from "./router.js";\ngo();\n',
    "router.js": 'export function go() {\n  return import("./views/a.js");\n}\n',
    "units.js": "export const KB = 1000;\n",
    "views/a.js": 'import { KB as kb } from "../units.js";\n'
    'import { only } from "./only.js";\nexport async function show() {\n  return only(kb);\n}\n',
    "views/b.js": 'import * as units from "../units.js";\nexport function show() {}\n',
    "views/only.js": "export class Only {}\nexport function* only() {}\n",
}
PAGES = ("views/a.js", "views/b.js")


def linked(**changes: str) -> dict[str, str]:
    sources = {**SOURCES, **{f"{name}.js": text for name, text in changes.items()}}
    return link(sources, entry="main.js", pages=PAGES)


def modules_of(text: str) -> list[str]:
    return re.findall(r"^// (\S+\.js)$", text, re.M)


def test_a_module_of_several_pages_is_in_the_file_of_the_entry() -> None:
    files = linked()
    assert modules_of(files["main.js"]) == ["units.js", "router.js", "main.js"]
    assert modules_of(files["views/a.js"]) == ["views/only.js", "views/a.js"]
    assert modules_of(files["views/b.js"]) == ["views/b.js"]


def test_imports_and_exports_become_constants() -> None:
    files = linked()
    assert files["main.js"].endswith("export { $units, $router, $main };\n")
    assert files["views/a.js"].startswith('import { $units } from "../main.js";\n')
    assert "const { KB: kb } = $units;" in files["views/a.js"]
    assert "const units = $units;" in files["views/b.js"]
    assert "return { Only, only };" in files["views/a.js"]
    assert files["views/a.js"].endswith("export const { show } = $views$a;\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("export default 1;\n", "does not know 'export default 1;'"),
        ("export let count = 0;\n", "does not know 'export let"),
        ('import "./router.js";\n', "does not know 'import"),
        ('export { go } from "./router.js";\n', "does not know 'export"),
        ('import { x } from "./none.js";\n', "imports none.js, not a module"),
        ('import { go } from "./main.js";\n', "cyclic imports: main.js -> router.js -> main.js"),
    ],
)
def test_a_form_that_the_linker_does_not_know_is_refused(text: str, message: str) -> None:
    with pytest.raises(LinkError, match=re.escape(message)):
        linked(router=text)


def test_a_dynamic_import_is_in_the_folder_of_the_entry_alone() -> None:
    sources = {**SOURCES, "views/only.js": 'export const only = () => import("./b.js");\n'}
    with pytest.raises(LinkError, match=r"views/only\.js: a dynamic import"):
        link(sources, entry="main.js", pages=PAGES)


def test_every_module_of_the_dashboard_is_in_one_file() -> None:
    names = [name for name in static_files.names(".js") if name != "theme.js"]
    sources = {name: static_files.file(name).content.decode() for name in names}
    views = set(re.findall(r'"\./(views/\w+\.js)"', sources["routes.js"]))
    files = link(sources, entry="main.js", pages=sorted(views))
    assert sorted(name for text in files.values() for name in modules_of(text)) == names
