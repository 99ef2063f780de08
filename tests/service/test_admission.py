"""How many jobs are taken, and whose turn it is."""

from __future__ import annotations

from meshwright.schema import Graph, InvalidInput, Topology
from service import documents
from service.keys import Keys
from service.principals import DEFAULT, Principal, Tenant
from tests.service.conftest import Serve
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


def of_key(table: Table, name: str) -> Principal:
    key, _ = Keys(table.database).create(DEFAULT, name=name, scopes=["plan"])
    return Principal(DEFAULT, key.id, frozenset(["plan"]))


def submit(table: Table, by: Principal) -> str:
    table.turn_clock(1)
    with table.database.writing() as connection:
        for document in (Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)):
            documents.put(connection, by.tenant, document, now=table.database.now)
        return table.jobs.submit(
            connection,
            by,
            request="request_1",
            graph=Graph.from_dict(GRAPH).id,
            topology=Topology.from_dict(TOPOLOGY).id,
            asked={},
        )
