"""What makes two requests the same: their content, and the build of the planner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from meshwright_service.api.plan_request import understand
from tests.service.builds import another_build, python_path
from tests.service.conftest import ROOT
from tests.service.samples import REQUEST

PROGRAM = """
import json, sys
from meshwright_service.api.plan_request import understand
print(understand(json.load(sys.stdin), "default").request)
"""


def digest_of(sources: Path) -> str:
    """The digest of the request in a process that imports from there."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(REQUEST),
        env={**os.environ, "PYTHONPATH": python_path(sources)},
        cwd=sources,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def test_another_build_of_the_planner_is_asked_another_request(tmp_path: Path) -> None:
    own = understand(REQUEST, "default").request
    assert digest_of(ROOT) == own
    sources, _ = another_build(tmp_path)
    assert digest_of(sources) != own
