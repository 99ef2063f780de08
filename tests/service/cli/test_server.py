"""How the server begins and ends: TLS, signals, metrics on a port of their own, readiness."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge
from sqlalchemy import text

from meshwright_service.cli.metrics_server import serving
from meshwright_service.cli.server import check_tls
from meshwright_service.common.settings import Settings
from tests.programs import CLIENT, SERVER, run
from tests.service.conftest import Serve, until
from tests.service.keyed import state_of
from tests.service.planners import COUNT
from tests.service.samples import REQUEST
from tests.service.workers.test_workers import program

URL = re.compile(r"https?://[0-9.]+:\d+")
PLANNERS = "tests.service.planners"


def url_in(line: str) -> str:
    found = URL.search(line)
    assert found, line
    return found[0]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    key.chmod(0o600)
    return cert, key


def test_with_a_certificate_it_speaks_https_alone(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key = certificate
    words = ["--tls-cert", str(cert), "--tls-key", str(key), "--data-dir", str(tmp_path)]
    trusting = ssl.create_default_context(cafile=str(cert))
    with program(tmp_path, "serve", "--port", "0", *words) as (line, _):
        url = url_in(line)
        assert url.startswith("https://")
        with httpx.Client(verify=trusting) as http:
            assert http.get(f"{url}/readyz").json() == {"status": "ok"}
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(url.replace("https", "http") + "/readyz")


def test_a_private_authority_is_trusted_where_the_environment_names_it(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key = certificate
    words = ["--tls-cert", str(cert), "--tls-key", str(key), "--data-dir", str(tmp_path)]
    with program(tmp_path, "serve", "--port", "0", *words) as (line, _):
        for trusted, status in (({}, 3), ({"SSL_CERT_FILE": str(cert)}, 0)):
            ran = run(
                CLIENT, "agents", "--server", url_in(line), environment={**os.environ, **trusted}
            )
            assert ran.returncode == status, ran.stderr
            assert ("CERTIFICATE_VERIFY_FAILED" in ran.stderr) == (status != 0), ran.stderr


@pytest.mark.parametrize(
    ("mode", "owner", "is_taken"),
    [(0o600, 0, True), (0o400, 0, True), (0o640, 0, True), (0o644, 0, False), (0o660, 0, False),
     (0o600, 1000, True), (0o640, 1000, False), (0o604, 1000, False)],
)  # fmt: skip
def test_a_key_that_others_can_read_is_refused(
    certificate: tuple[Path, Path], tmp_path: Path, mode: int, owner: int, is_taken: bool
) -> None:
    if os.geteuid() != 0 and owner != os.geteuid():
        owner = os.geteuid()
        is_taken = not mode & 0o077
    key = tmp_path / "key.pem"
    key.write_bytes(certificate[1].read_bytes())
    key.chmod(mode)
    os.chown(key, owner, -1)
    settings = Settings(tls_cert=certificate[0], tls_key=key)
    if is_taken:
        check_tls(settings)
        return
    with pytest.raises(ValueError, match=rf"key.pem can be read by others \(mode {mode:04o}\)"):
        check_tls(settings)


def test_half_of_a_certificate_is_refused(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one is of no use without the other"):
        check_tls(Settings(tls_cert=certificate[0]))
    with pytest.raises(ValueError, match=r"--tls-key: .*none.pem: No such file"):
        check_tls(Settings(tls_cert=certificate[0], tls_key=tmp_path / "none.pem"))


def test_at_a_signal_jobs_are_queued_again_and_who_waits_has_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHWRIGHT_LEASE_S", "3600")  # whoever does not let go is found out
    endless, tiny = ({"MESHWRIGHT_PLANNER": f"{PLANNERS}:{own}"} for own in ("endless", "tiny"))
    words = ("serve", "--port", "0", "--data-dir", str(tmp_path))
    answers: list[Any] = []
    with program(tmp_path, *words, **endless) as (line, process):
        url = url_in(line)
        job = httpx.post(f"{url}/v1/plan", json=REQUEST).json()["id"]
        until(lambda: httpx.get(f"{url}/v1/jobs/{job}").json().get("progress"))

        def wait() -> None:
            answers.append(httpx.get(f"{url}/v1/jobs/{job}?wait=50"))

        def follow() -> None:
            answers.append(httpx.get(f"{url}/v1/jobs/{job}/events"))

        threads = [threading.Thread(target=own) for own in (wait, follow)]
        for thread in threads:
            thread.start()
        until(lambda: _running(url) >= 2)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(timeout=120)
        process.wait(timeout=120)
    assert [answer.status_code for answer in answers] == [200, 200]
    with program(tmp_path, *words, **tiny) as (line, _):
        ended = httpx.get(f"{url_in(line)}/v1/jobs/{job}?wait=60").json()
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert "Traceback" not in (tmp_path / "errors of serve").read_text()


def _running(url: str) -> float:
    found = re.search(
        r"^meshwright_http_requests_running (\S+)", httpx.get(f"{url}/metrics").text, re.MULTILINE
    )
    assert found
    return float(found[1]) - 1  # this very one


def test_a_worker_lets_go_at_a_signal_and_another_goes_on_at_once(
    store: str, tmp_path: Path, serve: Serve
) -> None:
    http = serve(workers=0, lease_s=3600)
    job = http.post("/v1/plan", json=REQUEST).json()["id"]
    given = {"MESHWRIGHT_DATABASE_URL": store, "MESHWRIGHT_LEASE_S": "3600"}
    endless = given | {"MESHWRIGHT_PLANNER": f"{PLANNERS}:endless"}
    with program(tmp_path, "worker", **endless) as (_, process):
        until(lambda: http.get(f"/v1/jobs/{job}").json().get("progress"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    assert http.get(f"/v1/jobs/{job}").json()["state"] == "queued"
    with program(tmp_path, "worker", **given, MESHWRIGHT_PLANNER=f"{PLANNERS}:tiny"):
        ended = http.get(f"/v1/jobs/{job}?wait=60").json()
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    words = ("serve", "--port", "0", "--data-dir", str(tmp_path))
    with program(tmp_path, *words) as (line, process):
        host, _, port = url_in(line).rpartition("/")[2].partition(":")
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(
                b"POST /v1/graphs HTTP/1.1\r\nHost: " + host.encode() + b"\r\nContent-Length: 99"
                b"\r\nContent-Type: application/json\r\n\r\n{"
            )
            until(lambda: _running(f"http://{host}:{port}") >= 1)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=1)  # the caller may go on
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=15)  # less than an orderly end may take


def test_a_worker_serves_its_metrics_on_a_port_of_its_own(
    store: str, tmp_path: Path, serve: Serve
) -> None:
    count = tmp_path / "searches"
    http = serve(workers=0)
    given = {
        "MESHWRIGHT_DATABASE_URL": store,
        "MESHWRIGHT_PLANNER": f"{PLANNERS}:counted",
        COUNT: str(count),
    }
    with program(tmp_path, "worker", "--metrics-port", "0", **given) as (line, _):
        url = url_in(line)
        job = http.post("/v1/plan", json=REQUEST).json()["id"]
        assert http.get(f"/v1/jobs/{job}?wait=60").json()["state"] == "succeeded"
        said = until(lambda: _with(url, "meshwright_search_seconds_count 1.0"))
    assert (
        'meshwright_jobs_ended_total{kind="plan",outcome="optimal",state="succeeded"} 1.0' in said
    )
    assert "meshwright_workers 1.0" in said
    assert 'meshwright_store_jobs{kind="plan",state="succeeded"}' in said
    own = http.get("/metrics").text
    assert "meshwright_search_seconds_count 0.0" in own
    assert 'meshwright_job_changes_total{kind="plan",state="queued"} 1.0' in own


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9090", 200), ("localhost", 200), ("[::1]:9090", 200), ("192.0.2.1:9090", 200),
        ("worker:9090", 200), ("evil.example", 421), ("", 421), (None, 421),
        ("127.0.0.1.evil.example:9090", 421),
    ],
)  # fmt: skip
def test_the_port_of_metrics_answers_to_the_names_of_the_service(
    host: str | None, status: int
) -> None:
    registry = CollectorRegistry()
    Gauge("answer", "Of the test", registry=registry).set(42)
    with (
        serving("0.0.0.0", 0, registry=registry, allowed_hosts="worker") as url,
        socket.create_connection(("127.0.0.1", int(url_in(url).rpartition(":")[2]))) as caller,
    ):
        header = "" if host is None else f"Host: {host}\r\n"
        caller.sendall(f"GET /metrics HTTP/1.1\r\n{header}Connection: close\r\n\r\n".encode())
        with caller.makefile("rb") as answer:
            said = answer.read().decode()
    assert said.startswith(f"HTTP/1.0 {status} "), said
    assert ("answer 42.0" in said) == (status == 200)
    assert ("urn:meshwright:problem:wrong-host" in said) == (status == 421)


def test_a_port_of_metrics_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        words = ["serve", "--port", "0", "--metrics-port", port, "--data-dir", str(tmp_path)]
        ran = run(SERVER, *words)
    assert ran.returncode == 2, ran.stderr
    assert f"cannot serve metrics on 127.0.0.1 port {port}: Address already in use" in ran.stderr


def test_a_port_of_metrics_listens_on_ipv6() -> None:
    with serving("::1", 0, registry=CollectorRegistry(), allowed_hosts="") as url:
        assert url.startswith("http://[::1]:")
        assert httpx.get(url).status_code == 200


def _with(url: str, line: str) -> str:
    found = httpx.get(f"{url}/metrics").text
    return found if line in found else ""


def test_readiness_says_what_is_missing(serve: Serve) -> None:
    http = serve()
    state = state_of(http)
    assert http.get("/readyz").json() == {"status": "ok"}
    with state.database.writing() as connection:
        was = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    answer = http.get("/readyz")
    assert answer.status_code == 503
    assert f"has the schema 0001, this program needs {was}" in answer.json()["detail"]
    assert "meshwright-server db upgrade" in answer.json()["detail"]
    with state.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :was"), {"was": was})
    (worker,) = state.workers
    worker.stop()
    assert http.get("/readyz").json()["detail"] == "1 of 1 workers have ended"
    state.begin_to_stop()
    assert http.get("/readyz").json()["detail"] == "the service is shutting down"
