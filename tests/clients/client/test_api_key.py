"""The key that clients send: from where, and never further than to the service."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from meshwright.cli import main
from meshwright.client import Client
from meshwright.client.api_key import KEY, KEY_FILE
from meshwright.schema import Forbidden, InvalidInput, MeshwrightError, Unauthorized

ONE, TWO = "mw_one", "mw_two"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEY, KEY_FILE):
        monkeypatch.setenv(name, "")


def sent(key: str | None = None) -> str | None:
    """The header that a client sends."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"plans": []})

    with Client("http://service", key=key, transport=httpx.MockTransport(answer)) as client:
        list(client.plans())
    return asked[0].headers.get("authorization")


def test_the_key_is_given_or_the_environments_or_a_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert sent() is None
    (tmp_path / "key").write_text(f"{TWO}\n")
    monkeypatch.setenv(KEY_FILE, str(tmp_path / "key"))
    assert sent() == f"Bearer {TWO}"
    monkeypatch.setenv(KEY, ONE)
    assert sent() == f"Bearer {ONE}"
    assert sent(TWO) == f"Bearer {TWO}"


@pytest.mark.parametrize("text", ["secret", "mw_a b", "mw_a\r\nHost: x", "mw_\x00", "mw_é", ""])
def test_what_is_no_key_is_refused_and_not_repeated(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(text, encoding="utf-8")
    monkeypatch.setenv(KEY_FILE, str(tmp_path / "key"))
    with pytest.raises(InvalidInput, match="is no API key") as refused:
        sent()
    assert not text or text not in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_a_file_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(SystemExit) as ended:
        main(["--api-key-file", str(tmp_path / "no"), "agents", "--server", "http://127.0.0.1:9"])
    assert ended.value.code == 2
    assert f"{tmp_path / 'no'} cannot be read: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "slug", "kind"), [(401, "unauthorized", Unauthorized), (403, "forbidden", Forbidden)]
)
def test_a_refusal_is_an_error_of_its_own(
    status: int, slug: str, kind: type[MeshwrightError]
) -> None:
    problem = {"type": f"urn:meshwright:problem:{slug}", "status": status, "detail": "no"}
    transport = httpx.MockTransport(
        lambda _: httpx.Response(
            status, json=problem, headers={"content-type": "application/problem+json"}
        )
    )
    with Client("http://service", transport=transport) as client, pytest.raises(kind, match="no"):
        list(client.plans())
