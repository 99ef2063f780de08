"""No field of a plan can have another value without being named.

Every field of plans of several kinds is changed, one at a time (`corruptions`). The verifier
refuses each change, but for statements of a search that only another search could check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any

import pytest

from meshwright.schema import MeshwrightError, Plan, PlanError, Request
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned
from tests.solver.verification.corrupted import REQUESTS
from tests.solver.verification.corruptions import Corruption, corruptions

SAMPLE = 8  # chosen: corruptions of a plan that `make test` draws, others every day
PARTS = 8  # chosen: of all corruptions of a plan, each a test of `make test-long`

# what may pass, and why
UNCHECKED = {
    r"name: ": "a label",
    r"planner_build: ": "another build may find the same plan",
    r"notes: ": "sentences, whose figures stand in fields of their own",
    r"wishes\..*": "the plan keeps the other wish too",
    r"model_flops: one left out": "a plan without them makes no claim",
    r"stages\.tensors\.saved: another: (rest|read)": "the value is read as it rests",
    r"search\.outcome: another: feasible": "a weaker claim",
    r"search\.step_bound_ns: (left out|lowered)": "a weaker claim",
    r"search\.history: (first|last) left out": "the search may have found more",
    r"search\.history\.cost_ns: ": "the order and the bound hold of other costs too",
    r"search\.considered: (first|last) left out": "the search may have considered more",
    r"search\.considered\.(estimated_ns|memory_bytes): ": "only another search estimates it",
    r"search\.considered\.why: ": "a reason of the search",
    r"search\.considered\.request_patch: left out": "a weaker claim",
    r"a target search\.considered\.configuration: ": "no request patch states it",
    r"search\.unrestricted_ns: ": "only another search finds it",
}


@cache
def plan_of(kind: str) -> tuple[Request, Plan, Any]:
    request = REQUESTS[kind]()
    plan = planned(request)
    return request, plan, plan.model_dump(mode="json")


def verify(request: Request, plan: Plan) -> str:
    documents = request.graph, request.topology, request.setup, request.calibration
    return verify_documents(plan, *documents).outcome


def refusal(kind: str, corruption: Corruption) -> str | None:
    """What the verifier says of a corruption; None if it passes, empty if it is no plan."""
    request, plan, document = plan_of(kind)
    try:
        corrupted = Plan.model_validate(corruption.of(document))
    except MeshwrightError:
        return ""
    if corrupted == plan:  # the change has no meaning
        return ""
    try:
        verify(request, corrupted)
    except PlanError as error:
        return str(error)
    return None


def names(corruption: Corruption) -> set[str]:
    """The fields on the way to a corruption, in the plural and the singular, and its neighbors."""
    fields = {name for part in corruption.path if isinstance(part, str) for name in words(part)}
    fields |= {field.removesuffix("s") for field in fields}
    for field, neighbors in NEIGHBORS.items():
        fields |= neighbors if corruption.field.startswith(field) else set()
    return fields


# fields that contradict a changed one
NEIGHBORS = {
    "microbatches": {"layouts"},
    "schedule": {"stages", "stage"},
    "stages.mesh": {"layouts", "strategy"},
    "stages.tensors": {"redistribution", "moment"},
    "search.found_by": {"solver"},
    "search.outcome": {"optimal"},
    "search.lower_bound_ns": {"gap"},
    "search.faster_ns": {"lower_bound_ns", "optimal"},
    "search.simplicity_ns": {"lower_bound_ns", "optimal"},
}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def is_unchecked(kind: str, corruption: Corruption) -> bool:
    texts = str(corruption), f"{kind} {corruption}"
    return any(re.match(pattern, text) for pattern in UNCHECKED for text in texts)


def passed(kind: str, drawn: list[Corruption]) -> Iterator[str]:
    """The corruptions that are not refused, or not by the name of what they change."""
    for corruption in drawn:
        why = refusal(kind, corruption)
        if why is None and not is_unchecked(kind, corruption):
            yield str(corruption)
        elif why and not names(corruption) & words(why):
            yield f"{corruption} is refused for: {why}"


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_plan_with_another_value_of_a_field_is_refused(kind: str) -> None:
    request, plan, _ = plan_of(kind)
    assert verify(request, plan) == "verified"
    day = date.today().toordinal()
    every = [each for each in corruptions(plan, each=1, seed=day) if not is_unchecked(kind, each)]
    first = day * SAMPLE % len(every)
    assert not list(passed(kind, (every * 2)[first : first + SAMPLE])), day


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_plan_with_another_value_of_any_field_is_refused(kind: str, part: int) -> None:
    every = corruptions(plan_of(kind)[1], each=2)
    assert not list(passed(kind, every[part::PARTS]))
