"""`meshwright-server health`: whether the service of a configuration answers on this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from meshwright_service.cli.health_check import Unhealthy, check
from meshwright_service.common.settings import Settings
from tests.programs import SERVER, run
from tests.service.cli.test_server import certificate, url_in
from tests.service.workers.test_workers import program

__all__ = ["certificate"]


def health(*words: str, **environment: str) -> tuple[int, str]:
    """`meshwright-server health WORDS…`: how it ended and what it said."""
    ran = run(SERVER, "health", *words, environment={**os.environ, **environment})
    return ran.returncode, ran.stdout + ran.stderr


def test_a_service_with_tls_on_any_port_is_healthy_until_it_ends(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    tls = {"MESHWRIGHT_TLS_CERT": str(certificate[0]), "MESHWRIGHT_TLS_KEY": str(certificate[1])}
    words = ("serve", "--port", "0", "--data-dir", str(tmp_path))
    with program(tmp_path, *words, **tls) as (line, _):
        url = url_in(line)
        port = url.rpartition(":")[2]
        asked = {**tls, "MESHWRIGHT_PORT": port, "MESHWRIGHT_HOST": "0.0.0.0"}
        assert health(**asked) == (0, f"{url}/healthz answers\n")
        status, said = health("--port", port)
        assert status == 1, said
        assert said.startswith(f"meshwright-server: http://127.0.0.1:{port}/healthz does not")
    status, said = health(**asked)
    assert (status, "Connection refused" in said) == (1, True), said


def test_a_service_without_tls_is_healthy(tmp_path: Path) -> None:
    with program(tmp_path, "serve", "--port", "0", "--data-dir", str(tmp_path)) as (line, _):
        url = url_in(line)
        assert check(Settings(port=int(url.rpartition(":")[2]))) == f"{url}/healthz"


def test_what_is_no_service_is_not_healthy() -> None:
    with pytest.raises(Unhealthy, match="Set MESHWRIGHT_PORT"):
        check(Settings(port=0))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unhealthy, match=rf"127.0.0.1:{port}/healthz does not answer: .*refused"):
        check(Settings(port=port))
