"""What all pages share: the document, its files, keys, themes, and that names stay text."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Error, Page, expect

from meshwright_service.api import static_files as pages
from tests.dashboard.conftest import ROOT, Site, check, visit

FILES = ROOT / "service" / "meshwright_service" / "dashboard"
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    r"|setHTML|createContextualFragment"
)
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/)")


def sources() -> list[Path]:
    found = [path for path in FILES.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg")]
    assert len(found) > 15
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_nothing_makes_markup_of_text_or_comes_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not MARKUP.search(text)
    assert not ELSEWHERE.search(text)
    assert len(text.splitlines()) <= 400
    assert pages.file(path.relative_to(FILES).as_posix()).content == text.encode()


def test_colours_stand_in_the_palette_alone() -> None:
    for path in sources():
        if path.name not in ("palette.css", "icon.svg"):
            found = re.findall(r"#[0-9a-fA-F]{3,8}\b(?!\")|\brgba?\((?!0 0 0)", path.read_text())
            assert found == [], path


def test_every_route_is_a_page_of_the_service() -> None:
    routes = re.findall(r'\["(/[^"]*)"', (FILES / "routes.js").read_text())
    assert routes
    assert {re.sub(r"\{\w+\}", "{}", path) for path in routes} <= {
        re.sub(r"\{\w+\}", "{}", path) for path in pages.PAGES
    }


def test_pages_and_files_need_no_key_and_allow_nothing(site: Site) -> None:
    for path in ("/", "/plans/plan_0", "/compare?plan=a&plan=b", "/?model=*", "/dashboard/main.js"):
        answer = httpx.get(site.url + path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        tag = {"If-None-Match": answer.headers["etag"]}
        assert httpx.get(site.url + path, headers=tag).status_code == 304
    for path in (
        "/dashboard/../guard.py",
        "/dashboard/none.js",
        "/dashboard/%2e%2e/site.py",
        "/no",
    ):
        assert httpx.get(site.url + path).status_code == 404, path


def test_the_browser_itself_refuses_markup(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    visit(page, site.url)
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("() => { document.getElementById('view').innerHTML = '<b>x</b>' }")


def test_the_list_opens_a_plan_and_comes_back(page: Page, site: Site) -> None:
    visit(page, site.url)
    expect(page.get_by_role("heading", name="Plans")).to_be_visible()
    expect(page.get_by_role("row", name="llama3-8b")).to_be_visible()
    check(page, "shell")


def test_a_page_that_is_not_there_says_so(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/topologies/none")
    expect(page.get_by_role("alert")).to_be_visible()


def test_keys_are_listed(page: Page, site: Site) -> None:
    visit(page, site.url)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("all keys")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_theme_stays(page: Page, site: Site) -> None:
    visit(page, site.url)
    page.get_by_role("button", name="Dark or light").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
