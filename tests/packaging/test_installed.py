"""Both wheels suffice: an environment and a folder without the repository, from plan to service."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import httpx
import pytest

from meshwright.common.example_graphs import example_names
from meshwright.common.files import read_document
from meshwright.schema import Graph, NotFound
from tests.packaging.conftest import ROOT
from tests.packaging.installation import run, serving, variables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder in which a user works."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_a_plan_from_an_example_to_its_certificate(environment: Path, folder: Path) -> None:
    command, given = environment / "bin" / "meshwright", variables(HOME=str(folder))
    options = ("--topology", "h100-8x8", "--budget", "5", "-o", "plan.json")
    run([command, "plan", "example:llama3-8b", *options], folder, given)
    shown = run([command, "show", "plan.json"], folder, given)
    assert "llama" in shown.lower()
    run([command, "plan", "example:wide-deep", *options], folder, given)
    assert "verified" in run([command, "verify", "plan.json"], folder, given)


def test_the_demonstration_and_the_dashboard(environment: Path, folder: Path) -> None:
    command, given = environment / "bin" / "meshwright-server", variables(HOME=str(folder))
    run([command, "db", "upgrade", "--data-dir", "store"], folder, given)
    options = ("--graph", "example:wide-deep", "--topology", "h100-1x8", "--data-dir", "store")
    told = run([command, "demo", *options], folder, given)
    (path,) = re.findall(r"http://[0-9.]+:\d+(/plans/plan_[0-9a-f]{64})$", told, re.MULTILINE)
    with serving([command, "serve", "--port", "0", "--data-dir", "store"], folder, given) as url:
        page = httpx.get(url + path)
        assert page.headers["Content-Type"].startswith("text/html")
        for script in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
            assert httpx.get(url + script).status_code == 200, script
        assert httpx.get(f"{url}/v1{path}").json()["stages"]
        assert httpx.get(f"{url}/readyz").status_code == 200


def test_the_client_runs_without_the_server(
    environment: Path, wheel_files: list[Path], folder: Path
) -> None:
    with zipfile.ZipFile(wheel_files[0]) as wheel:
        wheel.extractall(folder / "client")
    given = variables(PYTHONPATH=str(folder / "client"))
    python = [environment / "bin" / "python", "-m", "meshwright.cli"]
    assert "a valid graph" in run([*python, "validate", "example:unet3d"], folder, given)


def test_every_example_graph_is_in_the_wheel(built: list[zipfile.ZipFile]) -> None:
    packed = {
        info.filename: info.file_size
        for info in built[0].infolist()
        if info.filename.startswith("meshwright/example_graphs/")
    }
    assert {Path(name).name for name in packed} == {
        file.name for file in (ROOT / "examples" / "graphs").iterdir()
    }
    assert len(example_names()) == len(packed)
    assert sum(packed.values()) < 256 * 1024


@pytest.mark.parametrize("name", ["wide-deep", "unet3d"])
def test_an_example_is_the_graph_of_its_file(name: str) -> None:
    file = ROOT / "examples" / "graphs" / f"{name}.json.gz"
    assert read_document(Path(f"example:{name}"), Graph) == read_document(file, Graph)


def test_a_file_of_the_name_precedes_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = read_document(Path("example:unet3d"), Graph).model_copy(update={"name": "own"})
    Path("example:unet3d").write_text(own.to_json())
    assert read_document(Path("example:unet3d"), Graph).name == "own"


@pytest.mark.parametrize("name", ["", "llama", "../graph", "llama3-8b.json.gz", "a" * 500])
def test_an_unknown_example_is_refused_with_the_names(name: str) -> None:
    with pytest.raises(NotFound, match="Use one of bert-large, "):
        read_document(Path(f"example:{name}"), Graph)
