"""What is sent once more, when, and under which key: of both clients."""

from __future__ import annotations

import httpx
import pytest

from meshwright.client.connection import PATIENCE_S
from meshwright.client.retry import LONGEST_S
from meshwright.schema import NotFound, TooManyJobs, Topology, Unavailable
from meshwright.schema.agent import Measure
from tests.clients.client.speaking import Speaking, problem
from tests.service.samples import TOPOLOGY

AWAITS = pytest.mark.parametrize("awaits", [False, True], ids=["blocking", "awaiting"])
JOB = {"id": "job_1", "state": "queued"}
STORED = httpx.Response(201, json={"id": "topo_1"})


@AWAITS
@pytest.mark.parametrize(
    "failure",
    [
        httpx.ReadError("gone"),
        httpx.RemoteProtocolError("half an answer"),
        httpx.ConnectError("away"),
        problem("unavailable", 503),
        httpx.Response(502, text="<html>bad gateway"),
        httpx.Response(504, text=""),
    ],
    ids=lambda given: getattr(given, "status_code", type(given).__name__),
)
def test_a_service_that_is_away_for_a_moment_is_asked_again(
    failure: httpx.Response | Exception, awaits: bool
) -> None:
    speaking = Speaking(failure, failure, STORED, awaits=awaits)
    assert speaking("upload_topology", Topology.from_dict(TOPOLOGY)) == "topo_1"
    assert len({request.content for request in speaking.asked}) == 1
    assert len(speaking.asked) == 3
    short, longer = speaking.pauses
    assert 0 < short <= 0.1 < longer <= 0.4


@AWAITS
def test_a_service_that_never_answered_is_given_up_soon(awaits: bool) -> None:
    speaking = Speaking(*[httpx.ConnectError("refused")] * 4, awaits=awaits)
    with pytest.raises(Unavailable, match="no answer from http://service: refused"):
        speaking("get_plan", "plan_1")
    assert len(speaking.pauses) == 3
    assert sum(speaking.pauses) < 2.2


@AWAITS
def test_one_that_answered_before_is_waited_for(awaits: bool) -> None:
    answered, refused = httpx.Response(200, json=JOB), httpx.ConnectError("refused")
    speaking = Speaking(answered, *[refused] * 60, awaits=awaits)
    assert speaking("get_job", "job_1") == JOB
    with pytest.raises(Unavailable):
        speaking("get_job", "job_1")
    assert PATIENCE_S - LONGEST_S < sum(speaking.pauses) <= PATIENCE_S
    assert max(speaking.pauses) <= LONGEST_S


@AWAITS
def test_a_full_queue_is_waited_for_as_long_as_it_asks(awaits: bool) -> None:
    full = problem("too-many-jobs", 429, **{"Retry-After": "10"})
    speaking = Speaking(full, full, STORED, awaits=awaits)
    assert speaking("upload_topology", Topology.from_dict(TOPOLOGY)) == "topo_1"
    assert speaking.pauses == [10, 10]
    speaking = Speaking(full, full, awaits=awaits, patience_s=15)
    with pytest.raises(TooManyJobs, match="no: too-many-jobs"):
        speaking("upload_topology", Topology.from_dict(TOPOLOGY))
    assert speaking.pauses == [10]


@AWAITS
def test_what_would_be_done_twice_goes_under_one_key(awaits: bool) -> None:
    done = {**JOB, "state": "succeeded", "outcome": "infeasible",
            "infeasible": {"constraint": "memory", "detail": "too big"}}  # fmt: skip
    answers = [httpx.ReadError("gone"), httpx.Response(200, json=done)]
    keys = []
    for ask in (
        lambda own: own("measure", Measure()),
        lambda own: own("plan", "graph_1", "h100-1x8", search="fresh"),
        lambda own: own("plan", "graph_1", "h100-1x8", search="fresh"),
    ):
        speaking = Speaking(*answers, awaits=awaits)
        ask(speaking)
        first, second = (own.headers["idempotency-key"] for own in speaking.asked)
        assert first == second
        keys.append(first)
    assert len(set(keys)) == 3
    speaking = Speaking(*answers, awaits=awaits)
    speaking("plan", "graph_1", "h100-1x8")  # the same request is one job
    assert not any("idempotency-key" in own.headers for own in speaking.asked)


@AWAITS
@pytest.mark.parametrize("status", [400, 404, 409, 422, 500])
def test_what_the_service_says_counts_at_once(status: int, awaits: bool) -> None:
    speaking = Speaking(problem("not-found", status), awaits=awaits)
    with pytest.raises(NotFound) as refused:
        speaking("get_plan", "plan_1")
    assert not speaking.pauses
    assert refused.value.received is not None
    assert [own["pointer"] for own in refused.value.received["errors"]] == ["/a", "/b"]
    assert refused.value.received["status"] == status


@AWAITS
def test_a_page_of_a_proxy_is_said_to_be_one(awaits: bool) -> None:
    speaking = Speaking(*[httpx.Response(502, text="<html>")] * 60, awaits=awaits)
    with pytest.raises(Unavailable, match="http://service answers 502: the service is away"):
        speaking("get_plan", "plan_1")


@AWAITS
def test_lists_are_read_to_their_end(awaits: bool) -> None:
    speaking = Speaking(
        httpx.Response(200, json={"plans": [{"id": "a"}], "next_page_token": "t+/="}),
        httpx.ReadError("gone"),
        httpx.Response(200, json={"plans": [{"id": "b"}]}),
        awaits=awaits,
    )
    assert [own["id"] for own in speaking.listed("plans", graph="graph_1")] == ["a", "b"]
    assert dict(speaking.asked[-1].url.params) == {"graph": "graph_1", "page_token": "t+/="}


@AWAITS
def test_what_is_no_url_is_said(awaits: bool) -> None:
    speaking = Speaking(httpx.UnsupportedProtocol("ftp"), awaits=awaits)
    with pytest.raises(Unavailable, match="is not the URL of a service"):
        speaking("get_plan", "plan_1")
