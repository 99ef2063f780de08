"""Plans for tests on a GPU. All tests here are skipped on a machine without one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench.gpu.cases import Case
from bench.gpu.measurements import plan_path

Planned = Callable[[Case], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="torch.cuda finds no GPU on this machine"))


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """The plan of a case: of the folder MESHWRIGHT_GPU_PLANS, else made here."""
    stored = os.environ.get("MESHWRIGHT_GPU_PLANS")
    folder = Path(stored) if stored else tmp_path_factory.mktemp("plans")

    def plan(case: Case) -> Path:
        path = plan_path(folder, case.name)
        if not path.exists():
            from bench.gpu.predictions import plan_of

            plan_of(case, "h100").write(path)
        return path

    return plan
