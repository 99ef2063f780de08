"""The real thing: `meshwright-server serve` in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import httpx2 as httpx
import pytest

from meshwright.cli import main
from meshwright.client import Client
from meshwright.planfile import read_plan
from meshwright.schema import Graph, Topology, Unauthorized, Unavailable
from meshwright_service.auth.authentication import KEPT_S
from tests.programs import SERVER, run
from tests.service.conftest import server, until
from tests.service.planners import COUNT
from tests.service.samples import GRAPH, TOPOLOGY
from tests.service.verifiers import MARK


def test_a_plan_is_found_and_outlives_the_server(tmp_path: Path) -> None:
    seen: list[str] = []
    with server(tmp_path) as (url, _), Client(url) as client:
        answer = client.plan(
            Graph.from_dict(GRAPH),
            Topology.from_dict(TOPOLOGY),
            on_progress=lambda progress: seen.append(progress.phase),
        )
        assert answer.plan is not None
    with server(tmp_path) as (url, _), Client(url) as client:
        assert [entry["id"] for entry in client.plans()] == [answer.plan.id]
        assert client.get_plan(answer.plan.id) == answer.plan
        assert httpx.get(f"{url}/readyz").json() == {"status": "ok"}


def test_a_real_plan_is_verified_by_a_real_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, setup, output = (tmp_path / name for name in ("graph", "setup.json", "plan.json"))
    graph.write_text(json.dumps(GRAPH))
    setup.write_text('{"phase": "inference"}')
    with server(tmp_path, planner="default") as (url, _), Client(url) as client:
        ask = ["plan", str(graph), "--topology", "h100-1x4", "--setup", str(setup), "--server", url]
        assert command(*ask, "--verify", "-o", str(output)) == 0
        (entry,) = client.plans()
        assert entry["certificate"] == "verified"
        certificate = client.certificate(entry["id"])
        assert read_plan(output).certificate == certificate
        assert command("show", entry["id"], "--server", url) == 0
        assert command("verify", str(output)) == 0
        assert capsys.readouterr().out.count("verified: 4 tensors") == 3


def test_a_server_that_is_killed_while_it_verifies_leaves_no_process_and_no_second_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, count = tmp_path / "verifier", tmp_path / "searches"
    monkeypatch.setenv(MARK, str(mark))
    monkeypatch.setenv(COUNT, str(count))
    monkeypatch.setenv("MESHWRIGHT_LEASE_S", "0.5")
    planner, verifiers = "tests.service.planners:counted", "tests.service.verifiers"
    body = {"graph": GRAPH, "topology": TOPOLOGY, "verify": True}
    monkeypatch.setenv("MESHWRIGHT_VERIFIER", f"{verifiers}:endless")
    with server(tmp_path, planner=planner) as (url, pid):
        job = httpx.post(f"{url}/v1/plan", json=body).json()["id"]
        child = int(until(lambda: mark.exists() and mark.read_text()))
        os.kill(pid, signal.SIGKILL)
        until(lambda: not _alive(child))
    monkeypatch.setenv("MESHWRIGHT_VERIFIER", f"{verifiers}:passing")
    with server(tmp_path, planner=planner) as (url, _):
        ended = httpx.get(f"{url}/v1/jobs/{job}", params={"wait": 60}).json()
    assert (ended["state"], ended["certificate"]["outcome"]) == ("succeeded", "verified")
    assert count.read_text() == "searched\n"


def command(*arguments: str) -> int:
    """The exit code of `meshwright ARGUMENTS…`, run in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def test_a_server_that_is_killed_leaves_no_search_and_its_job_ends(tmp_path: Path) -> None:
    with server(tmp_path, planner="tests.service.planners:endless") as (url, pid):
        body = {"graph": GRAPH, "topology": TOPOLOGY}
        job = httpx.post(f"{url}/v1/plan", json=body).json()["id"]

        def search() -> int:
            progress = httpx.get(f"{url}/v1/jobs/{job}").json().get("progress") or {}
            return int(progress.get("phase", "").removeprefix("pid ") or 0)

        child = until(search)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not _alive(child))


def test_the_server_does_not_listen_to_the_world_by_itself(tmp_path: Path) -> None:
    ended = run(SERVER, "serve", "--host", "0.0.0.0", cwd=tmp_path)
    assert ended.returncode == 2
    assert "meshwright-server keys create" in ended.stderr


def test_keys_are_made_listed_and_revoked_in_the_shell(tmp_path: Path) -> None:
    def keys(*words: str) -> subprocess.CompletedProcess[str]:
        return run(SERVER, "keys", *words, "--data-dir", str(tmp_path))

    for words, said in (
        (["--scope", "root"], "some of read, plan, agent, admin, metrics, got root"),
        (["--tenant", "A b"], "--tenant: 'A b' is no name"),
    ):
        refused = keys("create", *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert said in refused.stderr
    secret = keys("create", "--tenant", "one", "--scope", "read", "--scope", "plan").stdout.strip()
    with server(tmp_path) as (url, _):
        assert httpx.get(f"{url}/v1/plans").status_code == 401
        with Client(url, key=secret) as client:
            assert client.plan(Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)).plan
        listed = keys("list").stdout
        assert listed.split()[1:4] == ["one", f"{secret[:11]}…", "read,plan"]
        assert secret not in listed
        assert "revoked" in keys("revoke", listed.split()[0]).stdout
        with Client(url, key=secret) as client:
            until(lambda: _is_refused(client), seconds=KEPT_S + 10)
        errors = (tmp_path / "errors").read_text()
    assert secret[11:] not in errors
    assert keys("revoke", "key_0").returncode == 2


def _is_refused(client: Client) -> bool:
    try:
        list(client.plans())
    except Unauthorized as error:
        return "was revoked" in error.detail
    return False


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (["--port", "{taken}"], {}, "port {taken}: Address already in use"),
        (["--port", "99999"], {}, "--port: Input should be less than or equal to 65535"),
        (["--data-dir", "/dev/null/store"], {}, "/dev/null/store"),
        (["--database", "nosuch://x"], {}, "store nosuch://x cannot be used"),
        (["--database", "postgresql://a:secret@h/d"], {}, "store postgresql://a:***@h/d cannot"),
        (["--data-dir", "{damaged}"], {}, "file is not a database"),
        ([], {"MESHWRIGHT_PLANNER": "none"}, "MESHWRIGHT_PLANNER: 'none' cannot be used: no plan"),
        ([], {"MESHWRIGHT_VERIFIER": "a:b"}, "MESHWRIGHT_VERIFIER: 'a:b' cannot be used: No mod"),
        ([], {"MESHWRIGHT_VERIFY_MEMORY_BYTES": "9"}, "MESHWRIGHT_VERIFY_MEMORY_BYTES: Input sho"),
        ([], {"MESHWRIGHT_SOLVE_MEMORY_BYTES": "9"}, "the planner alone takes 1073741824; 0 is"),
        ([], {"MESHWRIGHT_WORKERS": "many"}, "MESHWRIGHT_WORKERS: Input should be a valid integer"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, options: list[str], environment: dict[str, str], said: str
) -> None:
    (tmp_path / "meshwright.db").write_bytes(b"no database" * 1000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = {"taken": listener.getsockname()[1], "damaged": tmp_path}
        ran = run(
            SERVER, "serve", "--port", "0", *(option.format(**words) for option in options),
            environment={**os.environ, **environment},
        )  # fmt: skip
    assert ran.returncode == 2, ran.stderr
    assert said.format(**words) in ran.stderr
    assert ran.stderr.startswith("meshwright-server: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert "http://" not in ran.stdout
    assert "secret" not in ran.stdout + ran.stderr


def test_where_nobody_listens_the_client_says_so() -> None:
    pauses: list[float] = []
    with (
        Client("http://127.0.0.1:9", sleep=pauses.append) as client,
        pytest.raises(Unavailable, match="no answer from http"),
    ):
        client.get_plan("plan_0")
    assert len(pauses) == 3


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_caller_who_leaves_in_the_middle_of_a_body_is_no_fault(tmp_path: Path) -> None:
    with server(tmp_path) as (url, _):
        host, _, port = url.rpartition("/")[2].partition(":")
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(
                b"POST /v1/graphs HTTP/1.1\r\nHost: " + host.encode() + b"\r\nContent-Length: 99"
                b"\r\nContent-Type: application/json\r\n\r\n{"
            )
        assert httpx.get(f"{url}/healthz").status_code == 200
    assert "Traceback" not in (tmp_path / "errors").read_text()
