"""The Python client, over a transport that answers as told."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from meshwright.client import Client, SearchCancelled
from meshwright.schema import Answer as Answered
from meshwright.schema import (
    Certificate,
    Constraints,
    Graph,
    GraphError,
    MeshwrightError,
    NotFound,
    Pin,
    Plan,
    Progress,
    Request,
    Topology,
    Unavailable,
)
from tests.clients.client.speaking import events, progress
from tests.service.planners import tiny
from tests.service.samples import GRAPH, REQUEST, TOPOLOGY

Answer = Callable[[httpx.Request], httpx.Response]
JOB = {"id": "job_1", "state": "queued"}
PROBLEM = {
    "type": "urn:meshwright:problem:invalid-graph",
    "title": "t",
    "status": 422,
    "detail": "a cycle",
    "errors": [{"pointer": "/ops/1", "detail": "a cycle"}],
}


def client(*answers: httpx.Response | Exception) -> tuple[Client, list[httpx.Request]]:
    """A client whose service gives these answers in turn, and what it was asked."""
    asked: list[httpx.Request] = []
    left: Iterator[httpx.Response | Exception] = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        given = next(left)
        if isinstance(given, Exception):
            raise given
        return given

    made = Client("http://service/", transport=httpx.MockTransport(answer), sleep=lambda _: None)
    return made, asked


def problem(**changes: object) -> httpx.Response:
    document = {**PROBLEM, **changes}
    return httpx.Response(
        int(str(document["status"])),
        content=json.dumps(document),
        headers={"Content-Type": "application/problem+json"},
    )


def ask(made: Client, **more: object) -> object:
    with made:
        return made.plan(Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY), **more)  # type: ignore[arg-type]  # what a test passes on


def test_the_job_is_followed_to_its_end() -> None:
    running = {**JOB, "state": "running"}
    infeasible = {
        **JOB, "state": "succeeded", "outcome": "infeasible",
        "infeasible": {"constraint": "memory", "detail": "too big"},
    }  # fmt: skip
    made, asked = client(
        httpx.Response(202, json=JOB),
        events(progress(1, "p")),
        httpx.Response(200, json=running),
        events(progress(2, "q")),
        httpx.Response(200, json=infeasible),
    )
    seen: list[Progress] = []
    answer = ask(made, on_progress=seen.append)
    assert getattr(answer, "infeasible").detail == "too big"  # noqa: B009
    assert [progress.phase for progress in seen] == ["p", "q"]
    following = ["/v1/jobs/job_1/events", "/v1/jobs/job_1"]
    assert [request.url.path for request in asked] == ["/v1/plan", *following * 2]


def test_what_a_plan_may_be_is_sent_where_it_is_said() -> None:
    ended = {**JOB, "state": "succeeded", "outcome": "infeasible",
             "infeasible": {"constraint": "memory", "detail": "too big"}}  # fmt: skip
    made, asked = client(httpx.Response(200, json=ended), httpx.Response(200, json=ended))
    with made:
        for wishes in (
            {},
            {
                "solver": "semi_auto", "rest": "propagate", "module": "layers.*",
                "constraints": Constraints(fully_use_devices=True),
                "pins": [Pin(op="*", inputs=((8, 1),))],
            },
        ):  # fmt: skip
            made.plan("graph_1", "h100-1x8", **wishes)  # type: ignore[arg-type]  # as it is passed on
    plain, full = (json.loads(request.content) for request in asked)
    assert plain == {"graph": "graph_1", "topology": "h100-1x8"}
    assert full == {
        **plain, "solver": "semi_auto", "rest": "propagate", "module": "layers.*",
        "constraints": {"fully_use_devices": True}, "pins": [{"op": "*", "inputs": [[8, 1]]}],
    }  # fmt: skip


def found() -> tuple[httpx.Response, httpx.Response]:
    """A plan and its certificate as a service sends them."""
    plan = tiny(Request.from_dict(REQUEST)).plan
    assert plan is not None
    certificate = Certificate(plan=plan.id, outcome="failed", detail="tensor 'y' differs")
    return httpx.Response(200, json=plan.to_dict()), httpx.Response(200, json=certificate.to_dict())


def test_a_plan_comes_with_its_certificate_where_that_is_asked() -> None:
    plan, certificate = found()
    id_ = certificate.json()["plan"]
    verifying = {**JOB, "state": "running", "plan": id_, "verify": True}
    succeeded = {**JOB, "state": "succeeded", "plan": id_}
    followed = [
        httpx.Response(202, json=verifying),
        events(progress(1, "verifying")),
        httpx.Response(200, json=succeeded),
    ]
    for answers in ([*followed, plan, certificate], [plan, certificate]):
        made, asked = client(*answers)
        seen: list[Progress] = []
        answer = ask(made, verify=True, on_progress=seen.append)
        assert isinstance(answer, Answered)
        assert answer.plan is not None
        assert answer.certificate is not None
        assert (answer.plan.id, answer.certificate.outcome) == (id_, "failed")
        assert json.loads(asked[0].content)["verify"] is True
        assert asked[-1].url.path == f"/v1/plans/{id_}/certificate"
        assert [progress.phase for progress in seen] == ["verifying"] * (len(answers) // 5)


def test_who_does_not_ask_does_not_wait_for_the_verification_of_others() -> None:
    plan, certificate = found()
    verifying = {**JOB, "state": "running", "plan": certificate.json()["plan"], "verify": True}
    made, asked = client(httpx.Response(202, json=verifying), plan)
    answer = ask(made)
    assert isinstance(answer, Answered)
    assert answer.plan is not None
    assert answer.certificate is None
    assert "verify" not in json.loads(asked[0].content)


def test_a_cancelled_search_may_still_give_its_best_plan_so_far() -> None:
    plan, _ = found()
    cancelled = {**JOB, "state": "cancelled"}
    kept = {**cancelled, "plan": Plan.from_dict(plan.json()).id}
    kept |= {"seconds": [0.5, 2], "ended_early": True}
    answers = [httpx.Response(200, json=job) for job in (cancelled, kept)]
    made, asked = client(*answers, plan)
    answer = ask(made, on_progress=lambda _: None)
    assert isinstance(answer, Answered)
    assert answer.plan is not None
    assert (answer.seconds, answer.ended_early) == ((0.5, 2), True)
    assert asked[1].url.params["wait"] == "20.0"  # until the plan is there, or will never be


def test_a_cancelled_search_has_no_plan_that_was_verified() -> None:
    made, _ = client(httpx.Response(200, json={**JOB, "state": "cancelled", "plan": "plan_7"}))
    with pytest.raises(SearchCancelled, match="plan_7 is stored, not verified"):
        ask(made, verify=True)


def test_large_bodies_are_compressed() -> None:
    made, asked = client(httpx.Response(201, json={"id": "graph_1"}))
    graph = Graph.from_dict({**GRAPH, "notes": ["n" * 5000]})
    assert made.upload_graph(graph) == "graph_1"
    assert asked[0].headers["content-encoding"] == "gzip"
    assert Graph.from_json(gzip.decompress(asked[0].content)) == graph
    made.close()


def test_a_problem_comes_back_as_the_error_it_was() -> None:
    made, _ = client(problem())
    with pytest.raises(GraphError, match="a cycle") as error:
        ask(made)
    assert error.value.pointer == "/ops/1"


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ({"state": "failed", "problem": PROBLEM}, GraphError),
        ({"state": "failed", "problem": {"type": "about:blank", "status": 500}}, MeshwrightError),
        ({"state": "cancelled"}, SearchCancelled),
        ({"state": "confused"}, Unavailable),
    ],
)
def test_a_job_that_ends_badly_raises(job: dict[str, object], error: type[MeshwrightError]) -> None:
    made, _ = client(*[httpx.Response(200, json={**JOB, **job})] * 2)
    with pytest.raises(error):
        ask(made)


def test_reads_are_tried_again() -> None:
    made, asked = client(
        httpx.ReadError("gone"), httpx.ConnectError("away"), problem(
            type="urn:meshwright:problem:not-found", status=404
        )
    )  # fmt: skip
    with made, pytest.raises(NotFound):
        made.get_graph("graph_1")
    assert len(asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(404, json={"detail": "Not Found"}),
        httpx.Response(302, headers={"Location": "/login"}, json={}),
    ],
)
def test_another_kind_of_service_is_recognised(answer: httpx.Response) -> None:
    made, _ = client(answer)
    with made, pytest.raises(Unavailable, match="not as a Meshwright service"):
        made.get_plan("plan_1")


def test_lists_are_read_to_their_end() -> None:
    made, asked = client(
        httpx.Response(200, json={"plans": [{"id": "a"}], "next_page_token": "t+/="}),
        httpx.Response(200, json={"plans": [{"id": "b"}]}),
    )
    with made:
        assert [entry["id"] for entry in made.plans(graph="graph_1")] == ["a", "b"]
    assert dict(asked[1].url.params) == {"graph": "graph_1", "page_token": "t+/="}


def test_an_id_cannot_leave_its_place() -> None:
    made, asked = client(problem(type="urn:meshwright:problem:not-found", status=404))
    with made, pytest.raises(NotFound):
        made.get_plan("../jobs?x=#y")
    assert asked[0].url.path == "/v1/plans/---jobs-x--y"
