"""Secrets from files, and passwords of databases apart from their URLs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url

from meshwright_service.common.database_password import url_with_password
from meshwright_service.common.secret_files import LARGEST_BYTES, SecretFileError
from meshwright_service.common.settings import SECRETS, Settings
from tests.programs import SERVER, run

URL = "postgresql://planner@db.example/plans?sslmode=verify-full"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_is_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    for name, value in {"database_url": URL, "database_password": " p@ss/w:rd% "}.items():
        file = tmp_path / name
        file.write_bytes(value.encode() + ending.encode())
        monkeypatch.setenv(f"MESHWRIGHT_{name.upper()}_FILE", str(file))
    assert make_url(Settings().database) == make_url(URL).set(password=" p@ss/w:rd% ")


def test_an_option_wins_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "url"
    file.write_text(URL)
    monkeypatch.setenv("MESHWRIGHT_DATABASE_URL_FILE", str(file))
    assert Settings(database_url="sqlite:///x.db").database == "sqlite:///x.db"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"one\ntwo\n", "more than one line"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * (LARGEST_BYTES + 1), "more than"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_secret_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("MESHWRIGHT_DATABASE_PASSWORD_FILE", str(file))
    with pytest.raises(SecretFileError, match=reason):
        Settings()


@pytest.mark.parametrize("name", SECRETS)
def test_a_variable_and_its_file_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / "secret"
    file.write_text("one")
    monkeypatch.setenv(f"MESHWRIGHT_{name.upper()}", "two")
    monkeypatch.setenv(f"MESHWRIGHT_{name.upper()}_FILE", str(file))
    with pytest.raises(SecretFileError, match="both set"):
        Settings()


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_password_comes_back_from_the_url(password: str) -> None:
    url = make_url(url_with_password(URL, password))
    assert url.password == password
    assert url.host == "db.example"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://db.example/plans", "no role"),
        ("postgresql://planner:old@db.example/plans", "a password too"),
        ("plans", "is not one"),
    ],
)
def test_a_url_that_takes_no_password_is_refused(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Settings(database_url=url, database_password="secret")


def test_a_sqlite_store_needs_no_password() -> None:
    given = Settings(database_url="sqlite:///x.db", database_password="secret")
    assert given.database == "sqlite:///x.db"


def test_no_command_prints_a_secret(tmp_path: Path) -> None:
    secret = "s3cr3t-of-a-test"
    file = tmp_path / "password"
    file.write_text(secret)
    for environment in (
        {"MESHWRIGHT_DATABASE_URL": URL},
        {"MESHWRIGHT_DATABASE_URL": "postgresql://db.example/plans"},
        {"MESHWRIGHT_DATABASE_URL": f"postgresql://planner:{secret}@127.0.0.1:1/plans"},
    ):
        more = {"MESHWRIGHT_DATABASE_PASSWORD_FILE": str(file), **environment}
        for words in (["config"], ["db", "upgrade"]):
            ended = run(SERVER, *words, environment=more, cwd=tmp_path)
            assert secret not in ended.stdout + ended.stderr
