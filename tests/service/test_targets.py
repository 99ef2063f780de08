"""Plans for a framework over HTTP: asked for, searched, exported."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from meshwright.client import Client
from meshwright.schema import Budget, MeshwrightError
from tests.service.conftest import server
from tests.solver.layered import layered


def test_a_service_searches_for_a_target(tmp_path: Path) -> None:
    graph = layered(8, batch=64)
    with server(tmp_path, planner="default") as (url, _), Client(url) as client:
        answer = client.plan(graph, "h100-1x4", target="accelerate", budget=Budget(seconds=60))
        assert answer.plan is not None
        assert answer.plan.wishes.target == "accelerate"
        setup = client.get_setup(answer.plan.setup)
        assert (setup.stack, setup.uneven) == ("torchtitan", "chunk")
        export = httpx.get(f"{url}/v1/plans/{answer.plan.id}/exports/accelerate").json()
        assert "fsdp_config" in export["text"]
        assert export.get("lost", ()) == ()
        again = client.plan(graph, "h100-1x4", target="accelerate", budget=Budget(seconds=60))
        assert again.plan == answer.plan
        with pytest.raises(MeshwrightError, match="no strategy of deepspeed divides") as refused:
            client.plan(layered(8, batch=30), "h100-1x4", target="deepspeed")
        assert refused.value.pointer == "/target"
