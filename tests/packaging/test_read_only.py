"""A read-only root, a user id that no file names, no home directory: commands and service run."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.schema import Graph
from tests.packaging.installation import run, serving
from tests.packaging.sandbox import USER, Sandbox, is_possible

pytestmark = pytest.mark.skipif(not is_possible(), reason="needs root and mount namespaces")
STORE = "/mnt/data/store"
PROBE = f"""
import os, pwd, tempfile
from pathlib import Path
assert os.getuid() == {USER} and "HOME" not in os.environ
try:
    pwd.getpwuid(os.getuid())
except KeyError:
    pass
else:
    raise AssertionError("the user id has a name")
try:
    tempfile.gettempdir()
except FileNotFoundError:
    pass
else:
    raise AssertionError(tempfile.gettempdir())
import meshwright_solver
for folder in (Path(meshwright_solver.__file__).parent, Path("/"), Path("/tmp")):
    assert not os.access(folder, os.W_OK), folder
from meshwright.plugins import find_planner, preset
find_planner(), preset("h100-1x8")
print("done")
"""


@pytest.fixture
def nothing_writable(environment: Path) -> Sandbox:
    return Sandbox(environment, is_data_writable=False)


def test_the_planner_is_imported_where_nothing_is_writable(
    nothing_writable: Sandbox, tmp_path: Path
) -> None:
    command = nothing_writable.command("-c", PROBE)
    assert run(command, tmp_path, nothing_writable.variables()) == "done\n"


def test_a_service_that_can_write_nowhere_is_refused(
    nothing_writable: Sandbox, tmp_path: Path
) -> None:
    words = ("-m", "meshwright_service.cli", "serve", "--port", "0", "--data-dir", STORE)
    run(nothing_writable.command(*words), tmp_path, nothing_writable.variables(), code=2)


@pytest.mark.long
def test_a_plan_is_searched_where_nothing_is_writable(
    nothing_writable: Sandbox, tmp_path: Path
) -> None:
    words = ("-m", "meshwright.cli", "plan", "example:wide-deep", "--topology", "h100-1x8")
    assert "Plan" in run(nothing_writable.command(*words), tmp_path, nothing_writable.variables())


def test_a_service_plans_where_only_its_data_folder_is_writable(
    environment: Path, tmp_path: Path
) -> None:
    sandbox = Sandbox(environment, is_data_writable=True)
    words = ("-m", "meshwright_service.cli", "serve", "--port", "0", "--data-dir", STORE)
    graph = read_document(Path("example:wide-deep"), Graph)
    with (
        serving(sandbox.command(*words), tmp_path, sandbox.variables()) as url,
        Client(url) as client,
    ):
        assert client.plan(graph, "h100-1x8").plan is not None
