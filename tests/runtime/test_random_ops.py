"""A replicated op that draws random numbers draws the same on two real ranks."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing as processes
from torch import nn

import meshwright
from meshwright.capture import capture_module
from meshwright.planfile import PlanFile
from meshwright.schema import Degrees, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

RANKS, ROWS, WIDE = 2, 2, 512
T = torch.Tensor


class Noisy(nn.Module):
    """The loss is the mean of `scale * down(up(x))`, times a sum of random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16, bias=False), nn.Linear(16, WIDE, bias=False)
        self.scale = nn.Parameter(torch.ones(WIDE))

    def forward(self, x: T) -> T:
        noise = torch.rand_like(x).sum()
        return (self.made(x) * self.scale * noise).mean()

    def made(self, x: T) -> T:
        return self.down(self.up(x))


def rows(count: int) -> T:
    return torch.linspace(0.1, 1, 8, dtype=torch.float64).expand(count, 8).contiguous()


def module() -> Noisy:
    torch.manual_seed(1)
    return Noisy().double()


def trains(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    noisy = module()
    torch.manual_seed(rank)
    with meshwright.parallelize(noisy, folder / "plan.json") as trained:
        trained.step(**trained.slice({"x": rows(ROWS)}))
        gradient = trained.whole_gradient("scale")
        assert gradient is not None
    (folder / f"{rank}.txt").write_text(json.dumps(gradient.tolist()))
    dist.destroy_process_group()


def test_both_ranks_draw_the_same_numbers(tmp_path: Path) -> None:
    graph = capture_module(
        module(),
        lambda sizes: {"x": rows(sizes["batch"]).to("meta")},
        symbols={"batch": ROWS},
        name="noisy",
    )
    devices, setup = topology(RANKS), Setup(global_batch=ROWS, microbatches=1)
    request = toy_request(graph=graph, topology=devices, setup=setup, degrees=Degrees(tp=2))
    found = plan(request).plan
    assert found is not None
    PlanFile(plan=found, graph=graph, topology=devices, setup=setup).write(tmp_path / "plan.json")
    multiprocessing.set_forkserver_preload([__name__])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes.start_processes(
        trains, (store.port, tmp_path), nprocs=RANKS, start_method="forkserver"
    )
    first, second = (json.loads((tmp_path / f"{rank}.txt").read_text()) for rank in range(RANKS))
    assert first == second
    # a rank computes half of it; by hand: the mean of `made` times the sum of the random numbers
    by_column = module().made(rows(ROWS)).mean(0) / WIDE
    noise = torch.tensor(first, dtype=torch.float64) / by_column
    torch.testing.assert_close(noise, noise[:1].expand(WIDE), rtol=1e-9, atol=0.0)
