"""The service in a test: an app or a job table over a fresh SQLite file, and waiting."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from bench.postgresql import PostgreSQL, running
from meshwright.plugins.planner import find_planner
from meshwright.schema import Plan, Request
from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from meshwright_service.store.database import Database
from tests.programs import SERVER, started
from tests.service.job_table import Table
from tests.service.planners import COUNT, told
from tests.service.samples import REQUEST

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ON_BOTH = ("store", "jobs", "auth", "test_side_by_side.py")
Serve = Callable[..., TestClient]


@pytest.fixture(autouse=True)
def _planners_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child processes import the planners of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in [name for name in os.environ if name.startswith("MESHWRIGHT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which some planners say what they do; there is none before the first does."""
    path = tmp_path / "searches"
    tell(monkeypatch, COUNT, path)
    return path


def tell(monkeypatch: pytest.MonkeyPatch, variable: str, path: Path) -> None:
    """Set a variable that children of this process see too: what they copy has its own."""
    monkeypatch.setenv(variable, str(path))
    monkeypatch.setattr(
        "meshwright_service.processes.child_client.answer", partial(told, dict(os.environ))
    )


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with running() as made:
        yield made


@pytest.fixture(scope="session")
def upgraded(postgresql: PostgreSQL) -> str:
    """A database of the newest schema, to be copied."""
    name = postgresql.create()
    database = Database(postgresql.url(name))
    database.upgrade()
    database.close()
    return name


@pytest.fixture(scope="session")
def upgraded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for SQLite."""
    path = tmp_path_factory.mktemp("upgraded") / "meshwright.db"
    database = Database(f"sqlite:///{path}")
    database.upgrade()
    database.close()
    return path


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of the store and of jobs run on both databases; all others on SQLite, and on PostgreSQL
    in `make test-long`."""
    if "dialect" in metafunc.fixturenames:
        room = metafunc.definition.path.relative_to(HERE).parts[0]
        marks = () if room in ON_BOTH else (pytest.mark.long,)
        metafunc.parametrize("dialect", ["sqlite", pytest.param("postgresql", marks=marks)])


@pytest.fixture
def empty(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    with _made(dialect, request, tmp_path, "template1") as url:
        yield url


@pytest.fixture
def store(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store."""
    with _made(dialect, request, tmp_path, None) as url:
        yield url


@contextmanager
def _made(
    dialect: str, request: pytest.FixtureRequest, folder: Path, template: str | None
) -> Iterator[str]:
    if dialect == "sqlite":
        if template is None:
            shutil.copy(request.getfixturevalue("upgraded_file"), folder)
        yield f"sqlite:///{folder / 'meshwright.db'}"
        return
    postgresql: PostgreSQL = request.getfixturevalue("postgresql")
    name = postgresql.create(template or request.getfixturevalue("upgraded"))
    yield postgresql.url(name)
    postgresql.drop(name)


@pytest.fixture
def table(store: str) -> Iterator[Table]:
    made = Table(store)
    yield made
    made.database.close()


@pytest.fixture(scope="session")
def plan() -> Plan:
    answer = find_planner("tests.service.planners:tiny")(Request.from_dict(REQUEST))
    assert answer.plan is not None
    return answer.plan


@pytest.fixture
def serve(store: str, tmp_path: Path) -> Iterator[Serve]:
    """Starts the service: serve(planner name, settings…). Ends with the test."""
    with ExitStack() as stack:

        def start(planner: str = "tiny", **settings: Any) -> TestClient:
            given = {
                "data_dir": tmp_path,
                "database_url": store,
                "poll_s": 0.05,  # chosen: a query of an idle worker takes 5 ms of a core
                "retry_s": 0,
                **settings,
            }
            app = create_app(Settings(**given), planner=f"tests.service.planners:{planner}")
            return stack.enter_context(local(app))

        yield start


def local(app: FastAPI) -> TestClient:
    """A client on the same machine, which is served without a key."""
    return TestClient(
        app, "http://127.0.0.1", raise_server_exceptions=False, client=("127.0.0.1", 50000)
    )


@contextmanager
def server(
    data: Path, *, planner: str = "tests.service.planners:tiny", port: str = "0"
) -> Iterator[tuple[str, int]]:
    """Its URL and process id; ended by SIGTERM, as supervisors do."""
    words = ["serve", "--port", port, "--data-dir", str(data)]
    environment = {**os.environ, "MESHWRIGHT_PLANNER": planner}
    with (
        (data / "errors").open("w") as errors,
        started(SERVER, words, errors, environment) as (process, output),
    ):
        found = re.search(r"http://[0-9.]+:\d+", output.readline())
        assert found, (data / "errors").read_text()
        yield found[0], process.pid


def is_there(process: int) -> bool:
    """Whether there is a process of this id."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def until(what: Callable[[], Any], *, seconds: float = 120) -> Any:
    """What `what` gives once that is true; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"did not come true in {seconds} s")
