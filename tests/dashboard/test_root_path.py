"""The dashboard, the API and the client behind nginx, under a path."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from meshwright.client import Client
from meshwright.schema import Graph
from tests.dashboard.conftest import PATIENCE_MS, Site, visit
from tests.dashboard.test_attacks import PATHS
from tests.dashboard.test_every_page import Ids, ids  # noqa: F401  the fixture
from tests.nginx import documented, proxy
from tests.service.cli.test_server import certificate  # noqa: F401  the fixture
from tests.service.conftest import server
from tests.service.samples import GRAPH

ROOT_PATH = "/tools/meshwright"
PASS = "proxy_pass http://127.0.0.1:8780;"
WAYS = {"the path is passed on": PASS, "the path is removed": PASS.replace("8780;", "8780/;")}


@pytest.fixture(scope="module", params=WAYS.values(), ids=WAYS)
def root(
    request: pytest.FixtureRequest,
    site: Site,
    certificate: tuple[Path, Path],  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The URL of a service with the store of `site`, behind a proxy."""
    text = documented()
    assert text.count(PASS) == 1
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("MESHWRIGHT_ROOT_PATH", ROOT_PATH)
        planner = "meshwright_solver.planning.planner:plan"
        with server(site.folder, planner=planner) as (target, _):
            settings.undo()
            block = text.replace(PASS, request.param)
            folder = tmp_path_factory.mktemp("nginx")
            with proxy(folder, target, certificate, server=block) as origin:
                yield origin + ROOT_PATH


@pytest.fixture
def trust(
    certificate: tuple[Path, Path],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ssl.SSLContext:
    """Trust in the certificate of the proxy, of clients that take no context too."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    return ssl.create_default_context(cafile=str(certificate[0]))


@pytest.fixture
def page(browser: Browser, root: str) -> Iterator[Page]:
    """A page that may request only what is below the root path."""
    context = browser.new_context(ignore_https_errors=True, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    opened, wrong = context.new_page(), list[str]()

    def check(request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("blob", "data") and not request.url.startswith(f"{root}/"):
            wrong.append(request.url)

    opened.on("request", check)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    yield opened
    context.close()
    assert wrong == []


@pytest.mark.rotating
@pytest.mark.parametrize("path", PATHS)
def test_pages_their_links_and_requests_stay_below_the_path(
    page: Page,
    root: str,
    ids: Ids,  # noqa: F811
    path: str,
) -> None:
    visit(page, root + ids.address(path))
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("alert")).to_have_count(0)
    addresses = page.eval_on_selector_all(
        "a[href]", "all => all.map((one) => one.getAttribute('href'))"
    )
    assert len(addresses) > 5
    for address in addresses:
        assert re.match(rf"{ROOT_PATH}/|[#?]|blob:", address), address


def test_links_keys_and_the_way_back_lead_to_pages_below_the_path(
    page: Page, root: str, site: Site
) -> None:
    visit(page, f"{root}/")
    page.get_by_role("link", name="Graphs").click()
    page.wait_for_selector('#view > [data-shown="/graphs"]')
    assert page.url == f"{root}/graphs"
    expect(page.get_by_role("link", name="Graphs")).to_have_attribute("aria-current", "page")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.get_by_role("table", name="Plans").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{root}/plans/plan_*")
    page.go_back()
    page.wait_for_selector('#view > [data-shown="/"]')
    visit(page, f"{root}/plans/{site.plans['llama']}/launch")
    expect(page.locator("#view")).to_contain_text(f"{root}/v1/plans/")


def test_a_job_is_followed_by_its_events(page: Page, root: str, trust: ssl.SSLContext) -> None:
    with httpx.Client(verify=trust) as http:
        body = {"graph": GRAPH, "topology": "h100-1x2"}
        job = http.post(f"{root}/v1/plan?fresh=true", json=body).json()["id"]
    visit(page, f"{root}/jobs/{job}")
    page.get_by_role("link", name="Open the plan").click()
    page.wait_for_url(f"{root}/plans/plan_*")


def test_headers_and_documents_name_the_path(root: str, trust: ssl.SSLContext) -> None:
    with httpx.Client(verify=trust) as http:
        created = http.post(f"{root}/v1/graphs", json=GRAPH)
        location = created.headers["Location"]
        assert location.startswith(f"{ROOT_PATH}/v1/graphs/")
        assert http.get(created.url.join(location)).status_code == 200
        body = {"graph": GRAPH, "topology": "h100-1x2"}
        answer = http.post(f"{root}/v1/plan", json=body, headers={"Prefer": "wait=60"})
        assert http.get(answer.url.join(answer.headers["Content-Location"])).is_success
        (entry,) = http.get(f"{root}/openapi.json").json()["servers"]
        assert entry["url"] == ROOT_PATH
        moved = http.get(root)
        assert moved.status_code == 301
        assert http.get(moved.url.join(moved.headers["Location"])).is_success
        origin = root.removesuffix(ROOT_PATH)
        foreign = http.post(f"{root}/v1/graphs", json=GRAPH, headers={"Origin": "https://evil"})
        assert foreign.status_code == 403
        same = http.post(f"{root}/v1/graphs", json=GRAPH, headers={"Origin": origin})
        assert same.is_success


@pytest.mark.usefixtures("trust")
def test_the_client_takes_a_url_with_a_path(root: str, site: Site) -> None:
    for url in (root, f"{root}/"):
        with Client(url) as client:
            assert client.get_plan(site.plans["face"]).id == site.plans["face"]
            assert client.plan(Graph.from_dict(GRAPH), "h100-1x2").plan is not None
