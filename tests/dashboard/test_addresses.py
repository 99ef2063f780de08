"""Addresses of the dashboard's files: immutable, requested together, gone after an upgrade."""

from __future__ import annotations

import gzip
import re
from urllib.parse import urlsplit

import httpx
import pytest
import zstandard
from playwright.sync_api import Page, Route, expect

from meshwright_service.api.page_documents import pages
from tests.dashboard.conftest import Site, visit
from tests.dashboard.test_attacks import PATHS

ADDRESS = re.compile(r'(?:href|src)="(/static/[^"]+)"')


def addresses(site: Site, path: str = "/") -> list[str]:
    """The files that the document of a page names."""
    return ADDRESS.findall(httpx.get(site.url + path).text)


def test_a_document_names_files_by_one_digest_that_may_be_kept_for_a_year(site: Site) -> None:
    found = addresses(site)
    names = {address.removeprefix(f"/static/{pages().digest}/") for address in found}
    assert names == {"icon.svg", "main.js", "style.css", "theme.js", "views/plans.js"}
    for address in found:
        answer = httpx.get(site.url + address)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    document = httpx.get(site.url)
    assert document.headers["cache-control"] == "no-cache"


def test_files_are_compressed_as_the_browser_accepts(site: Site) -> None:
    address = site.url + f"/static/{pages().digest}/main.js"
    plain = httpx.get(address, headers={"Accept-Encoding": "identity"}).content
    decoders = {"zstd": zstandard.ZstdDecompressor().decompress, "gzip": gzip.decompress}
    for encoding, decoder in decoders.items():
        with httpx.stream("GET", address, headers={"Accept-Encoding": encoding}) as answer:
            packed = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == encoding
        assert "Accept-Encoding" in answer.headers["vary"]
        assert len(packed) < len(plain) / 2
        assert decoder(packed) == plain


@pytest.mark.parametrize("name", ["main.js", "views/plans.js", "views/none.js"])
def test_files_of_another_version_are_not_there(site: Site, name: str) -> None:
    other = httpx.get(f"{site.url}/static/{'0' * 16}/{name}")
    assert other.status_code == 404
    assert other.headers["cache-control"] == "no-store"
    assert "Reload the page" in other.json()["detail"]
    assert httpx.get(f"{site.url}/static/{pages().digest}/views/none.js").status_code == 404


@pytest.mark.parametrize("path", PATHS)
def test_a_page_requests_no_module_that_its_document_does_not_name(
    page: Page, site: Site, path: str
) -> None:
    address = re.sub(r"\{\w+\}", "none", path)
    named = {site.url + own for own in addresses(site, address)}
    requested: list[str] = []
    page.on("request", lambda own: requested.append(own.url))
    visit(page, site.url + address)
    files = [url for url in requested if not urlsplit(url).path.startswith("/v1/")]
    assert set(files) - {site.url + address} <= named | {url for url in files if url[:5] == "data:"}
    assert len([url for url in named if "/views/" in url]) == 1
    first_data = next(at for at, url in enumerate(requested) if "/v1/" in url)
    late = [url for url in requested[first_data:] if url.endswith(".js")]
    assert late == []


def test_a_page_of_an_older_version_offers_to_reload(page: Page, site: Site) -> None:
    visit(page, site.url)
    page.route("**/views/agents.js", lambda route: route.fulfill(status=404, json={}))
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("alert")).to_contain_text("The dashboard was upgraded")
    page.unroute("**/views/agents.js")
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()


def test_a_page_whose_module_cannot_be_had_tries_again(page: Page, site: Site) -> None:
    away = True

    def answer(route: Route) -> None:
        if away:
            route.abort()
        else:
            route.continue_()

    visit(page, site.url)
    page.route("**/views/agents.js", answer)
    page.route("**/healthz", answer)
    page.get_by_role("link", name="Agents").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The service does not answer: this page tries again")
    assert "dynamically imported" not in alert.inner_text()
    away = False
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()
