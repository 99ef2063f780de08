"""The service that hands worlds their plans: a real one, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.conftest import server


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL; one for all tests of a process."""
    with server(tmp_path_factory.mktemp("service"), planner="default") as (url, _):
        yield url
