"""Both distributions have the version of the newest tag; the server needs exactly its client."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from email.message import Message
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from meshwright_solver.planning.build import planner_build
from tests.packaging.conftest import ROOT
from tests.programs import CLIENT, SERVER, run

FILES = ("pyproject.toml", "clients/pyproject.toml", ".git_archival.txt", ".gitattributes")
FALLBACK = "0.1.0.dev0"


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


def test_the_wheels_have_one_version_and_the_server_needs_exactly_that_client(
    built: list[zipfile.ZipFile],
) -> None:
    client, server = (metadata_of(wheel) for wheel in built)
    assert (client["Name"], server["Name"]) == ("meshwright", "meshwright-server")
    assert client["Version"] == server["Version"]
    needed = [Requirement(line) for line in server.get_all("Requires-Dist", [])]
    pins = [one for one in needed if one.name == "meshwright"]
    ours = Version(client["Version"])
    assert all(one.specifier.contains(ours, prereleases=True) for one in pins)
    other = Version(f"{ours.base_version}.post1")
    assert not all(one.specifier.contains(other, prereleases=True) for one in pins)


def test_the_wheels_have_the_license_and_a_readme(built: list[zipfile.ZipFile]) -> None:
    for wheel in built:
        (name,) = (name for name in wheel.namelist() if name.endswith("/licenses/LICENSE"))
        assert wheel.read(name) == (ROOT / "LICENSE").read_bytes()
        metadata = metadata_of(wheel)
        assert metadata["License-Expression"] == "Apache-2.0"
        assert metadata["Description-Content-Type"] == "text/markdown"
        assert len(str(metadata.get_payload())) > 500


def test_every_dependency_has_a_lower_bound(built: list[zipfile.ZipFile]) -> None:
    for wheel in built:
        for line in metadata_of(wheel).get_all("Requires-Dist", []):
            one = Requirement(line)
            is_ours = one.name.startswith("meshwright")
            is_for_tests = one.marker is not None and '"test"' in str(one.marker)
            assert is_ours or is_for_tests or one.specifier, line


def test_every_extra_is_documented(built: list[zipfile.ZipFile]) -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    for wheel in built:
        metadata = metadata_of(wheel)
        for extra in set(metadata.get_all("Provides-Extra", [])) - {"test"}:
            assert f"| `{extra}` | `{metadata['Name']}` |" in page, extra


@pytest.mark.parametrize(
    ("name", "module"), [("meshwright", CLIENT), ("meshwright-server", SERVER)]
)
def test_the_commands_print_version_and_build(name: str, module: str) -> None:
    ran = run(module, "--version")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{name} {version(name)}, planner build {planner_build()}\n"


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def versions_of(folder: Path) -> set[str]:
    """The versions that hatchling finds for the two projects of a folder."""
    command = [sys.executable, "-W", "ignore", "-m", "hatchling", "version"]
    return {
        subprocess.run(
            command, cwd=folder / project, check=True, capture_output=True, text=True
        ).stdout.strip()
        for project in (".", "clients")
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of one commit with the projects of this one, without tags."""
    folder = tmp_path / "repository"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "first")
    return folder


def commit(repository: Path) -> None:
    git(repository, "commit", "--allow-empty", "--message", "next")


def archive(repository: Path, to: Path) -> Path:
    """A source archive, unpacked."""
    to.mkdir()
    git(repository, "archive", "--output", str(to / "source.tar"), "HEAD")
    shutil.unpack_archive(to / "source.tar", to)
    return to


def test_a_tag_is_the_version_and_commits_after_it_count(repository: Path, tmp_path: Path) -> None:
    git(repository, "tag", "v1.4.0")
    assert versions_of(repository) == {"1.4.0"}
    assert versions_of(archive(repository, tmp_path / "release")) == {"1.4.0"}
    commit(repository)
    commit(repository)
    (found,) = versions_of(repository)
    assert found.startswith("1.4.1.dev2+g")
    (archived,) = versions_of(archive(repository, tmp_path / "later"))
    assert Version(archived).public == Version(found).public


def test_without_tags_it_is_a_development_version(repository: Path, tmp_path: Path) -> None:
    commit(repository)
    (found,) = versions_of(repository)
    assert found.startswith("0.1.0.dev2+g")
    git(tmp_path, "clone", "--depth", "1", repository.as_uri(), "shallow")
    (shallow,) = versions_of(tmp_path / "shallow")
    assert shallow.startswith("0.1.0.dev1+g")


def test_without_git_it_is_the_fallback(repository: Path, tmp_path: Path) -> None:
    assert versions_of(archive(repository, tmp_path / "archive")) == {FALLBACK}
    shutil.rmtree(repository / ".git")
    (repository / ".git_archival.txt").unlink()
    assert versions_of(repository) == {FALLBACK}
