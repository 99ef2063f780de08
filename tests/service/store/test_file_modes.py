"""File modes: a SQLite store is its owner's alone."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from meshwright_service.store.database import Database
from tests.service.conftest import ROOT


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    was = os.umask(0o022)
    yield
    os.umask(was)


@contextmanager
def opened(file: Path) -> Iterator[Database]:
    """A store that was written to, so that its log is there."""
    database = Database(f"sqlite:///{file}")
    database.open()
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS t (a INTEGER)"))
    yield database
    database.close()


def modes(folder: Path) -> dict[str, int]:
    return {entry.name: entry.stat().st_mode & 0o7777 for entry in [folder, *folder.iterdir()]}


def older(folder: Path) -> Path:
    """A store as versions before made it: readable by all."""
    file = folder / "meshwright.db"
    with opened(file):
        pass
    for entry in (*folder.iterdir(), folder):
        entry.chmod(entry.stat().st_mode | 0o055 if entry == folder else 0o644)
    return file


def test_a_new_store_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "more" / "data"
    with opened(folder / "meshwright.db"):
        assert modes(folder) == {
            "data": 0o700,
            "meshwright.db": 0o600,
            "meshwright.db-wal": 0o600,
            "meshwright.db-shm": 0o600,
        }
    assert modes(folder.parent)["more"] == 0o755


def test_an_older_store_is_tightened_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = older(tmp_path)
    with caplog.at_level(logging.INFO, "meshwright_service.store.file_modes"), opened(file):
        assert {mode & 0o077 for mode in modes(tmp_path).values()} == {0}
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{tmp_path} had the mode 0755; it has 0700 now",
        *(f"{file}{suffix} had the mode 0644; it has 0600 now" for suffix in ("", "-wal", "-shm")),
    ]
    caplog.clear()
    with opened(file):
        pass
    assert caplog.records == []


def test_a_log_that_was_readable_is_tightened_beside_a_process_at_work(tmp_path: Path) -> None:
    with opened(tmp_path / "meshwright.db"):
        log = tmp_path / "meshwright.db-wal"
        log.chmod(0o644)
        with opened(tmp_path / "meshwright.db"):
            assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("shared", ["other files", "sticky", "home"])
def test_a_folder_that_is_not_the_stores_alone_stays(
    tmp_path: Path, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = older(tmp_path)
    if shared == "other files":
        (tmp_path / "notes").touch(mode=0o644)
    elif shared == "sticky":
        tmp_path.chmod(0o1777)
    else:
        monkeypatch.setenv("HOME", str(tmp_path))
    before = tmp_path.stat().st_mode
    with opened(file):
        assert tmp_path.stat().st_mode == before
        assert file.stat().st_mode & 0o777 == 0o600
    if shared == "other files":
        assert (tmp_path / "notes").stat().st_mode & 0o777 == 0o644


def test_a_file_that_is_no_store_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "meshwright.db"
    file.write_bytes(b"no database" * 1000)
    database = Database(f"sqlite:///{file}")
    with pytest.raises(DatabaseError, match="not a database"):
        database.open()
    database.close()
    assert file.stat().st_mode & 0o777 == 0o644


def test_what_another_user_owns_stays_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = older(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    for _ in range(2):
        with opened(file):
            assert file.stat().st_mode & 0o777 == 0o644
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == 4, "of the folder, the file and its log: once"
    assert all("it belongs to another user; chmod go= it" in line for line in warned)


def test_every_key_that_the_documents_write_to_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    texts.append((ROOT / "README.md").read_text(encoding="utf-8"))
    written = re.findall(r"^.*\bkeys create\b[^`\n]*> *\w.*$", "\n".join(texts), re.MULTILINE)
    assert written
    for line in (line.removeprefix("$ ") for line in written):
        command = re.sub(r"[^(;]*\bmeshwright-server keys create[^>]*", "echo secret ", line)
        subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, timeout=120)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
