"""The running bound of a search: what is proved of the meshes that it has left."""

from __future__ import annotations

import random
from typing import Any

from playwright.sync_api import Page

from tests.dashboard.conftest import Site, visit

ENVELOPE = """([phases, incumbents, end]) => import("/dashboard/views/job/envelope.js")
    .then((own) => own.envelope({phases, incumbents}, end))"""
RISEN = (
    """(course) => import("/dashboard/views/job/envelope.js").then((own) => own.risen(course))"""
)
Points = list[list[float]]


def value(points: Points, ns: float) -> float:
    """Of a step line at a time; inf before its start."""
    return next((cost for at, cost in reversed(points) if at <= ns), float("inf"))


def phases_of(at: random.Random) -> list[dict[str, Any]]:
    begin, phases = 0, list[dict[str, Any]]()
    for _ in range(at.randint(1, 6)):
        times = sorted(at.sample(range(begin, begin + 20), at.randint(0, 4)))
        costs = sorted(at.sample(range(50, 150), len(times)))
        bounds = [list(point) for point in zip(times, costs, strict=True)]
        phases.append({"from": begin, "bounds": bounds})
        begin += 20
    return phases


def test_the_bound_of_a_mesh_counts_once_the_search_has_left_it(page: Page, site: Site) -> None:
    visit(page, site.url)
    phases = [
        {"from": 0, "bounds": [[2, 60], [5, 90]]},
        {"from": 10, "bounds": [[12, 40], [18, 80]]},
        {"from": 20, "bounds": [[22, 50], [28, 120]]},
    ]
    # the second mesh ends at 80; the third at 120 changes nothing; the best plan at 14 is cheaper
    assert page.evaluate(ENVELOPE, [phases, [[3, 100], [14, 85]], 30]) == [
        [2, 60], [5, 90], [14, 85], [20, 80],
    ]  # fmt: skip


def test_the_envelope_holds_for_all_meshes_left_and_never_exceeds_the_best(
    page: Page, site: Site
) -> None:
    visit(page, site.url)
    at = random.Random(5)
    for _ in range(100):
        phases = phases_of(at)
        end = 20 * len(phases)
        costs = sorted(at.sample(range(50, 160), at.randint(0, 4)), reverse=True)
        times = sorted(at.sample(range(end), len(costs)))
        best = [list(point) for point in zip(times, costs, strict=True)]
        line = page.evaluate(ENVELOPE, [phases, best, end])
        bounded = [own for own in phases if own["bounds"]]
        assert bool(line) == bool(bounded)
        for ns in range(end + 1) if line else ():
            left = [own["bounds"] for own in bounded[1:] if own["from"] + 20 <= ns]
            least = min([value(bounded[0]["bounds"], ns), *(bounds[-1][1] for bounds in left)])
            if ns >= line[0][0]:
                assert value(line, ns) == min(least, value(best, ns)), (ns, phases, best, line)


def test_the_bound_on_one_problem_never_falls(page: Page, site: Site) -> None:
    visit(page, site.url)
    bounds = [[1, 10], [2, 8], [3, 12], [4, 30]]
    found = page.evaluate(RISEN, {"bounds": bounds, "incumbents": [[2, 40], [5, 25]]})
    assert found == [[1, 10], [3, 12], [4, 30], [5, 25]]
