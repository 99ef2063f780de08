"""Plans captured in low precision and under autocast, on two real ranks beside one process."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import multiprocessing as processes
from torch import nn

import meshwright
from meshwright.capture import capture_module
from meshwright.planfile import PlanFile
from meshwright.schema import Degrees, PlanError, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

RANKS, ROWS, STEPS, WIDE, CLASSES = 2, 8, 3, 16, 8
T = torch.Tensor
CAPTURES: dict[str, dict[str, str]] = {
    "autocast": {"autocast": "bfloat16"},
    "low": {"dtype": "bfloat16"},
}
PLANS = {"rows": Degrees(dp=2), "columns": Degrees(tp=2)}
CASES = [f"{capture}, {name}" for capture in CAPTURES for name in PLANS]


class Small(nn.Module):
    """Ops that autocast casts alike on CPU and CUDA."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDE, 4 * WIDE), nn.Linear(4 * WIDE, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        return F.cross_entropy(self.down(self.up(x).relu()).float(), labels)


def batch(dtype: torch.dtype) -> dict[str, T]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(ROWS, WIDE, generator=generator)
    return {"x": x.to(dtype), "labels": torch.arange(ROWS) % CLASSES}


def module(capture: str) -> nn.Module:
    torch.manual_seed(1)
    return Small().bfloat16() if capture == "low" else Small()


def alone(capture: str) -> list[float]:
    """The losses of one process, under PyTorch's autocast where the plan is."""
    own = module(capture)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.5)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=capture == "autocast"):
            loss = own(**batch(next(own.parameters()).dtype))
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    return losses


def of_plan(file: Path, capture: str) -> dict[str, Any]:
    with meshwright.parallelize(module(capture), file) as trained:
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.5)
        losses = []
        dtype = next(trained.parameters()).dtype
        for _ in range(STEPS):
            optimizer.zero_grad()
            # a region around the step, as in the loop of one process
            with torch.autocast("cpu", torch.bfloat16, enabled=capture == "autocast"):
                losses.append(float(trained.step(**trained.slice(batch(dtype)))))
            optimizer.step()
        refused = _refusal(trained, trained.slice(batch(dtype)))
        return {
            "refused": refused,
            "losses": losses,
            "dtype": str(dtype),
            "check": trained.module_check.method,
        }


def _refusal(trained: Any, inputs: dict[str, T]) -> str:
    try:
        with torch.autocast("cpu", torch.float16):
            trained.step(**inputs)
    except PlanError as why:
        return str(why)
    return ""


def trains(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    found = {case: of_plan(folder / f"{case}.json", case.split(", ")[0]) for case in CASES}
    (folder / f"{rank}.txt").write_text(json.dumps(found))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Of the first rank, by case."""
    folder = tmp_path_factory.mktemp("precision")
    for case in CASES:
        capture, name = case.split(", ")
        graph = capture_module(
            Small(),
            lambda sizes: {
                "x": torch.zeros(sizes["batch"], WIDE, device="meta"),
                "labels": torch.zeros(sizes["batch"], dtype=torch.long, device="meta"),
            },
            symbols={"batch": ROWS},
            name="small",
            **CAPTURES[capture],
        )
        devices, setup = topology(RANKS), Setup(global_batch=ROWS, microbatches=1)
        request = toy_request(graph=graph, topology=devices, setup=setup, degrees=PLANS[name])
        made = plan(request).plan
        assert made is not None
        file = PlanFile(plan=made, graph=graph, topology=devices, setup=setup)
        file.write(folder / f"{case}.json")
    multiprocessing.set_forkserver_preload([__name__])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes.start_processes(trains, (store.port, folder), nprocs=RANKS, start_method="forkserver")
    result: dict[str, dict[str, Any]] = json.loads((folder / "0.txt").read_text())
    return result


@pytest.mark.parametrize("case", CASES)
def test_the_losses_are_those_of_one_process(found: dict[str, dict[str, Any]], case: str) -> None:
    """To roundings of bfloat16 in sums over ranks, after steps with their gradients."""
    wanted = alone(case.split(", ")[0])
    assert wanted[-1] < 0.8 * wanted[0]
    assert found[case]["losses"][0] == pytest.approx(wanted[0], rel=1e-3)
    assert found[case]["losses"] == pytest.approx(wanted, rel=2e-2)


@pytest.mark.parametrize("case", CASES)
def test_the_module_is_compared_by_its_ops_and_keeps_its_dtype(
    found: dict[str, dict[str, Any]], case: str
) -> None:
    assert found[case]["check"] == "graph"
    is_low = case.startswith("low")
    assert found[case]["dtype"] == ("torch.bfloat16" if is_low else "torch.float32")


@pytest.mark.parametrize("case", CASES)
def test_a_region_that_the_plan_lacks_is_refused(
    found: dict[str, dict[str, Any]], case: str
) -> None:
    assert found[case]["refused"].startswith(
        "the step is called in an autocast region of float16, and the plan's graph graph_"
    )
