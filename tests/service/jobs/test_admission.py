"""How many jobs are taken, and whose turn it is."""

from __future__ import annotations

import pytest

from meshwright.schema import Graph, InvalidInput, Topology
from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.principals import Principal
from meshwright_service.common.tenant import DEFAULT_TENANT, Tenant
from meshwright_service.store import documents
from tests.service.conftest import Serve, until
from tests.service.job_table import Table
from tests.service.keyed import key_of
from tests.service.samples import GRAPH, TOPOLOGY, graph, request


def test_a_tenant_has_so_many_jobs_and_no_more(serve: Serve) -> None:
    http = serve("endless", workers=0, max_jobs=2)
    one, other = key_of(http, tenant="one"), key_of(http, tenant="other")

    def ask(number: int, headers: dict[str, str]) -> tuple[int, str]:
        body = request(graph=graph(name=f"graph {number}"))
        answer = http.post("/v1/plan", json=body, headers=headers)
        assert ("retry-after" in answer.headers) == (answer.status_code == 429)
        return answer.status_code, answer.json().get("id", answer.json().get("type"))

    first = ask(1, one)
    assert [first[0], ask(2, one)[0]] == [202, 202]
    assert ask(3, one) == (429, "urn:meshwright:problem:too-many-jobs")
    assert ask(1, one) == first  # what is asked already is no new job
    assert ask(3, key_of(http, tenant="one"))[0] == 429
    assert ask(3, other)[0] == 202
    names = {entry["name"] for entry in http.get("/v1/graphs", headers=one).json()["graphs"]}
    assert names == {"graph 1", "graph 2"}  # what was refused left nothing
    assert http.post(f"/v1/jobs/{first[1]}/cancel", headers=one).status_code == 200
    assert ask(3, one)[0] == 202


def test_who_asks_for_much_does_not_keep_the_others_waiting(table: Table) -> None:
    greedy, modest = (
        Principal(Tenant(name), None, frozenset(["plan"])) for name in ("greedy", "modest")
    )
    jobs = [submit(table, greedy), submit(table, greedy), submit(table, greedy)]
    late = submit(table, modest)
    turns = [table.claim(f"w{number}").job for number in range(4)]
    assert turns[:2] == [jobs[0], late]
    assert turns[2:] == jobs[1:]


def test_keys_take_turns_at_one_worker(table: Table) -> None:
    greedy, modest = of_key(table, "greedy"), of_key(table, "modest")
    many = [submit(table, greedy) for _ in range(3)]
    few = [submit(table, modest) for _ in range(2)]
    turns = []
    while len(turns) < 5:
        table.turn_clock(1)
        claim = table.claim()
        turns.append(claim.job)
        assert table.leases.fail(claim, InvalidInput("what becomes of it is no matter"))
    assert turns == [many[0], few[0], many[1], few[1], many[2]]


def of_key(table: Table, name: str, tenant: Tenant = DEFAULT_TENANT) -> Principal:
    key, _ = Keys(table.database).create(tenant, name=name, scopes=["plan"])
    return Principal(tenant, key.id, frozenset(["plan"]))


def submit(table: Table, by: Principal) -> str:
    table.turn_clock(1)
    with table.database.writing() as connection:
        for document in (Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)):
            documents.put(connection, by.tenant, document, now=table.database.now)
        return table.jobs.submit(
            connection,
            by,
            request="request_1",
            inputs="inputs_1",
            graph=Graph.from_dict(GRAPH).id,
            topology=Topology.from_dict(TOPOLOGY).id,
            options={},
        )


@pytest.mark.rotating
@pytest.mark.parametrize("keys", [1, 20, 100])
def test_more_keys_give_a_tenant_no_more_turns(table: Table, keys: int) -> None:
    greedy = [of_key(table, f"key {number}", Tenant("greedy")) for number in range(keys)]
    modest = of_key(table, "modest", Tenant("modest"))
    for number in range(200):
        submit(table, greedy[number % keys])
    running = [table.claim(f"w{number}") for number in range(2)]
    asked = submit(table, modest)
    started_before = -1
    while running[-1].job != asked:
        started_before += 1
        table.turn_clock(1)
        assert table.leases.fail(running.pop(0), InvalidInput("the outcome does not matter"))
        running.append(table.claim())
    assert started_before == 0


def test_keys_of_a_tenant_share_its_turns(table: Table) -> None:
    one, two = (of_key(table, name, Tenant("many")) for name in ("one", "two"))
    other = of_key(table, "other", Tenant("other"))
    jobs = {key.key: [submit(table, key) for _ in range(3)] for key in (one, two, other)}
    turns = []
    while len(turns) < 9:
        table.turn_clock(1)
        claim = table.claim()
        turns.append(claim.job)
        assert table.leases.fail(claim, InvalidInput("the outcome does not matter"))
    first, second, third = jobs[one.key], jobs[two.key], jobs[other.key]
    assert turns == [first[0], third[0], second[0], third[1], first[1], third[2],
                     second[1], first[2], second[2]]  # fmt: skip


def test_a_job_gives_way_to_a_tenant_with_fewer_running(table: Table) -> None:
    greedy, modest = (of_key(table, name, Tenant(name)) for name in ("greedy", "modest"))
    jobs = [submit(table, greedy) for _ in range(3)]
    running = [table.claim("one"), table.claim("two")]
    assert not table.leases.is_due_to_yield(running[0])  # its tenant's own jobs do not count
    asked = submit(table, modest)
    assert table.leases.is_due_to_yield(running[0])
    assert table.leases.give_way(running[0])
    assert not table.leases.holds(running[0])
    assert table.claim("one").job == asked
    submit(table, modest)
    assert not table.leases.is_due_to_yield(running[1])  # each has one
    for claim in running[1:]:
        assert table.leases.fail(claim, InvalidInput("the outcome does not matter"))
    again = table.claim("two")
    assert (again.job, again.attempt, again.yields) == (jobs[0], 2, 1)


def test_a_small_job_of_another_tenant_does_not_wait_for_the_end_of_a_large_one(
    serve: Serve,
) -> None:
    http = serve("endless_or_tiny", slice_s=0.5)
    large, small = key_of(http, tenant="large"), key_of(http, tenant="small")
    heavy = request(graph=graph(name="endless"))
    first = http.post("/v1/plan", json=heavy, headers=large).json()["id"]
    until(lambda: http.get(f"/v1/jobs/{first}", headers=large).json()["state"] == "running")
    answer = http.post("/v1/plan", json=request(), headers={**small, "Prefer": "wait=60"})
    assert answer.status_code == 200
    until(lambda: http.get(f"/v1/jobs/{first}", headers=large).json()["attempt"] == 2)
    again = http.get(f"/v1/jobs/{first}", headers=large).json()
    assert again["state"] == "running"
    assert http.post(f"/v1/jobs/{first}/cancel", headers=large).status_code == 200
