"""Ops that drop elements, on two real ranks: copies drop alike, parts differ, again is the same."""

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
from meshwright.schema import Degrees, Plan, Setup
from meshwright.schema.recompute import Recomputed, Segment
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

RANKS, ROWS, STEPS, WIDE, DROPPED = 2, 2, 3, 512, 0.25
PLANS = {"rows": Degrees(dp=2), "columns": Degrees(tp=2), "columns, again": Degrees(tp=2)}
T = torch.Tensor


class Dropping(nn.Module):
    """A quarter of all elements is dropped before they are squared."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16, bias=False), nn.Linear(16, WIDE, bias=False)
        self.scale = nn.Parameter(torch.ones(WIDE))

    def forward(self, x: T) -> T:
        made = self.down(F.relu(self.up(x))) * self.scale
        return F.dropout(made, DROPPED).pow(2).mean()


def same_rows(rows: int) -> T:
    return torch.linspace(0.1, 1, 8, dtype=torch.float64).expand(rows, 8).contiguous()


def trains(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    found = {name: of_plan(folder / f"{name}.json") for name in PLANS}
    (folder / f"{rank}.txt").write_text(json.dumps(found))
    dist.destroy_process_group()


def of_plan(file: Path) -> dict[str, list[Any]]:
    """Losses, the scale's first gradients, and its values at the end on this rank."""
    torch.manual_seed(1)
    module = Dropping().double()
    torch.manual_seed(dist.get_rank())
    losses, gradients = [], []
    with meshwright.parallelize(module, file) as trained:
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        for _ in range(STEPS):
            torch.rand(dist.get_rank() + 1)  # of the process's own, which ops do not go by
            optimizer.zero_grad()
            losses.append(float(trained.step(**trained.slice({"x": same_rows(ROWS)}))))
            gradient = trained.whole_gradient("scale")
            assert gradient is not None
            gradients.append(gradient.tolist())
            optimizer.step()
        own = dict(trained.named_parameters())["scale"].detach()
        local = own.to_local() if hasattr(own, "to_local") else own
        saved = [float(trained.record.saved_bytes)]
    return {"losses": losses, "gradients": gradients, "scale": local.tolist(), "saved": saved}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, list[Any]]]]:
    """By rank, of every plan."""
    folder = tmp_path_factory.mktemp("dropping")
    graph = capture_module(
        Dropping().double(),
        lambda sizes: {"x": same_rows(sizes["batch"]).to("meta")},
        symbols={"batch": ROWS},
        name="dropping",
    )
    for name, degrees in PLANS.items():
        devices = topology(RANKS)
        setup = Setup(global_batch=ROWS, microbatches=1)
        made = plan(toy_request(graph=graph, topology=devices, setup=setup, degrees=degrees)).plan
        assert made is not None
        if "again" in name:
            made = dropping_again(made)
        PlanFile(plan=made, graph=graph, topology=devices, setup=setup).write(
            folder / f"{name}.json"
        )
    multiprocessing.set_forkserver_preload([__name__])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes.start_processes(trains, (store.port, folder), nprocs=RANKS, start_method="forkserver")
    return [json.loads((folder / f"{rank}.txt").read_text()) for rank in range(RANKS)]


def dropping_again(made: Plan) -> Plan:
    """The same plan, which does no op again as nothing in the graph repeats."""
    (stage,) = made.stages
    segment = Segment(ops=("mul", "dropout", "pow"), again=("mul", "dropout"))
    recompute = Recomputed(policy="ops", segments=(segment,))
    return made.model_copy(update={"stages": (stage.model_copy(update={"recompute": recompute}),)})


Found = list[dict[str, dict[str, list[Any]]]]


@pytest.mark.parametrize("name", PLANS)
def test_ranks_agree_on_losses_and_on_what_they_hold_alike(found: Found, name: str) -> None:
    first, second = (own[name] for own in found)
    assert first["losses"] == second["losses"]
    assert first["gradients"] == second["gradients"]
    if name == "rows":
        assert first["scale"] == second["scale"]
    assert len(set(first["losses"])) == STEPS


def kept(found: Found, name: str) -> T:
    """How many of the two rows kept each column, in the first step.

    By hand: loss = mean of (kept v / 0.75)^2, so its gradient is that of a row that drops nothing
    times the mean of kept over the rows, over 0.75^2.
    """
    torch.manual_seed(1)
    module = Dropping().double()
    module.down(F.relu(module.up(same_rows(ROWS)))).mul(module.scale).pow(2).mean().backward()
    gradient = torch.tensor(found[0][name]["gradients"][0], dtype=torch.float64)
    assert module.scale.grad is not None
    return gradient / module.scale.grad * (1 - DROPPED) ** 2 * ROWS


@pytest.mark.parametrize("name", PLANS)
def test_a_quarter_is_dropped_and_by_no_two_rows_alike(found: Found, name: str) -> None:
    counts = kept(found, name)
    assert torch.allclose(counts, counts.round(), atol=1e-9)
    # of a fair draw five standard deviations: each of 1024 elements is kept with 3/4
    assert (
        abs(float(counts.sum()) / (ROWS * WIDE) - 0.75) < 5 * (0.75 * 0.25 / (ROWS * WIDE)) ** 0.5
    )
    # one row alone keeps a column with 2 * 3/4 * 1/4
    alone = float((counts.round() == 1).double().mean())
    assert abs(alone - 0.375) < 5 * (0.375 * 0.625 / WIDE) ** 0.5


def test_what_is_run_again_drops_the_same(found: Found) -> None:
    once, again = (found[0][name] for name in ("columns", "columns, again"))
    assert again["saved"] < once["saved"]
    assert again["losses"] == pytest.approx(once["losses"], rel=1e-12)
    for a, b in zip(again["gradients"], once["gradients"], strict=True):
        assert a == pytest.approx(b, rel=1e-12)
