"""Where the service wants a key: it is asked for, kept in the tab alone, and can be forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from meshwright.client import Client
from meshwright.schema import Graph, Topology
from tests.dashboard.conftest import axe, check, overflow, shot, themes
from tests.programs import SERVER, run
from tests.service.conftest import server
from tests.service.samples import GRAPH, TOPOLOGY

DIALOG = "This service wants an API key"


@dataclass(frozen=True)
class Closed:
    """A service that wants keys. key: may do all; reader: may look."""

    url: str
    key: str
    reader: str


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    folder = tmp_path_factory.mktemp("closed")
    words = ["keys", "create", "--data-dir", str(folder)]
    key, reader = (
        run(SERVER, *words, "--scope", scope).stdout.strip() for scope in ("admin", "read")
    )
    with server(folder, planner="meshwright_solver.planning.planner:plan") as (url, _):
        yield Closed(url, key, reader)


@pytest.fixture
def tab(context: BrowserContext, closed: Closed) -> Iterator[Page]:
    """A page that fails the test where a key gets into an address, or anything onto the console."""
    made, wrong = context.new_page(), list[str]()
    secrets = (closed.key, closed.reader)
    made.on("request", lambda own: wrong.extend(one for one in secrets if one in own.url))
    made.on("pageerror", lambda error: wrong.append(str(error)))
    yield made
    wrong.extend(one for one in secrets if one in made.url)
    assert wrong == []


def enter(tab: Page, secret: str) -> None:
    dialog = tab.get_by_role("dialog", name=DIALOG)
    field = dialog.get_by_label("Key", exact=True)
    expect(field).to_be_focused()
    tab.keyboard.type(secret)
    tab.keyboard.press("Enter")


def test_a_key_is_asked_for_once_and_kept_in_the_tab(
    tab: Page, context: BrowserContext, closed: Closed
) -> None:
    tab.goto(f"{closed.url}/topologies")  # which asks two things at the same time
    expect(tab.get_by_role("dialog")).to_have_count(1)
    assert overflow(tab) == []
    for theme in themes(tab):
        assert axe(tab) == [], theme
        shot(tab, f"key-{theme}")
    enter(tab, closed.reader)
    expect(tab.get_by_role("heading", name="No topology yet")).to_be_visible()
    kept = "[Object.values(sessionStorage), Object.values(localStorage), document.cookie]"
    assert tab.evaluate(kept) == [[closed.reader], [], ""]
    tab.reload()
    expect(tab.get_by_role("heading", name="No topology yet")).to_be_visible()
    other = context.new_page()
    other.goto(f"{closed.url}/agents")
    expect(other.get_by_role("dialog", name=DIALOG)).to_be_visible()
    other.close()


def test_a_wrong_key_is_said_to_be_and_another_one_is_taken(tab: Page, closed: Closed) -> None:
    tab.goto(f"{closed.url}/agents")
    enter(tab, "mw_nobody_has_this")
    alert = tab.get_by_role("dialog").get_by_role("alert")
    expect(alert).to_contain_text(re.compile("key", re.IGNORECASE))
    for _ in range(3):  # there is nothing behind it; browsers close at the second one
        tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog", name=DIALOG)).to_be_visible()
    tab.get_by_label("Key", exact=True).focus()
    enter(tab, closed.key)
    expect(tab.get_by_role("heading", name="No agent yet")).to_be_visible()


def test_what_cannot_be_a_key_is_refused_before_it_is_sent(tab: Page, closed: Closed) -> None:
    tab.goto(f"{closed.url}/agents")
    enter(tab, "ключ")
    expect(tab.get_by_role("dialog").get_by_role("alert")).to_contain_text("mw_")
    assert tab.evaluate("sessionStorage.length") == 0
    tab.get_by_label("Key", exact=True).fill("")
    enter(tab, f"  {closed.key} ")  # as one copies it
    expect(tab.get_by_role("heading", name="No agent yet")).to_be_visible()


def test_a_key_is_forgotten(tab: Page, closed: Closed) -> None:
    tab.goto(f"{closed.url}/agents")
    expect(tab.get_by_role("button", name="Forget the key")).to_have_count(0)
    enter(tab, closed.key)
    expect(tab.get_by_role("heading", name="No agent yet")).to_be_visible()
    tab.get_by_role("button", name="Forget the key").click()
    expect(tab.get_by_role("dialog", name=DIALOG)).to_be_visible()
    assert tab.evaluate("sessionStorage.length") == 0


def test_a_key_that_is_revoked_meanwhile_is_asked_for_again(tab: Page, closed: Closed) -> None:
    admin = {"Authorization": f"Bearer {closed.key}"}
    keys = f"{closed.url}/v1/keys"
    made = httpx.post(keys, json={"name": "short", "scopes": ["read"]}, headers=admin).json()
    tab.goto(f"{closed.url}/agents")
    enter(tab, made["key"])
    expect(tab.get_by_role("heading", name="No agent yet")).to_be_visible()
    assert httpx.delete(f"{keys}/{made['id']}", headers=admin).is_success
    tab.get_by_role("link", name="Topologies").click()
    expect(tab.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    enter(tab, closed.reader)
    expect(tab.get_by_role("heading", name="No topology yet")).to_be_visible()


def test_who_may_only_look_is_told_so(tab: Page, closed: Closed) -> None:
    agent = {"name": "a", "backend": "gloo", "hosts": ["h"], "device": "cpu", "devices": 2}
    admin = {"Authorization": f"Bearer {closed.key}"}
    assert httpx.post(f"{closed.url}/v1/agents", json=agent, headers=admin).is_success
    tab.goto(f"{closed.url}/agents")
    enter(tab, closed.reader)
    tab.get_by_role("button", name="Measure").click()
    expect(tab.get_by_role("alert")).to_contain_text("scope 'plan'")
    expect(tab.get_by_role("button", name="Measure")).to_be_enabled()


@pytest.fixture
def plan(closed: Closed) -> str:
    with Client(closed.url, key=closed.key) as client:
        answer = client.plan(Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY))
        assert answer.plan is not None
        client.labels(answer.plan.id, add=["for May", "<b>bold</b>"])
        return answer.plan.id


def test_who_may_only_look_is_offered_nothing_else(tab: Page, closed: Closed, plan: str) -> None:
    tab.goto(f"{closed.url}/plans/{plan}")
    enter(tab, closed.reader)
    expect(tab.get_by_role("heading", name="Take it along")).to_be_visible()
    expect(tab.locator(".called")).to_contain_text("for May")
    expect(tab.get_by_role("button", name="Labels of")).to_have_count(0)
    expect(tab.get_by_role("button", name="Delete")).to_have_count(0)
    tab.get_by_role("link", name="Plans").click()
    expect(tab.get_by_role("table", name="Plans")).to_contain_text("for May")
    expect(tab.get_by_role("button", name="Labels of")).to_have_count(0)


def test_what_goes_with_a_plan_is_named_before_it_goes(
    tab: Page, closed: Closed, plan: str
) -> None:
    tab.goto(f"{closed.url}/plans/{plan}")
    enter(tab, closed.key)
    tab.locator(".called").get_by_role("button", name="Labels of").click()
    tab.keyboard.type("in use")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("button", name="Take away in use")).to_be_visible()
    tab.get_by_role("button", name="Delete this plan").click()
    dialog = tab.get_by_role("dialog", name="Delete")
    expect(dialog).to_contain_text("for May")
    expect(dialog).to_contain_text("<b>bold</b>")
    expect(dialog).to_contain_text("in use")
    expect(dialog).to_contain_text("the searches that found it")
    expect(dialog.get_by_role("button", name="Keep it")).to_be_focused()
    check(tab, "plan-delete")
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    with Client(closed.url, key=closed.key) as client:
        assert client.get_plan(plan).id == plan
        tab.get_by_role("button", name="Delete this plan").click()
        client.delete_plan(plan)  # somebody is faster
        dialog.get_by_role("button", name="Delete the plan").click()
        expect(dialog.get_by_role("alert")).to_contain_text(plan)
        answer = client.plan(Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY))
        assert answer.plan is not None
        assert answer.plan.id == plan
        dialog.get_by_role("button", name="Delete the plan").click()
        expect(tab.get_by_role("heading", name="No plan yet")).to_be_visible()
        assert [own["id"] for own in client.plans()] == []
