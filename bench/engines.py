"""`python -m bench.engines [--layers N] [--ranks N] [--steps N]`: a step of each PyTorch engine.

The same decoder, plan and processes (gloo, one thread each): a step of the engine `torch`, which is
PyTorch's own parts, and of the engine `graph`, which runs the graph op by op; the medians of
alternating steps, and their ratio. One process that runs the module alone is the reference.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import multiprocessing as processes
from torch import nn

import meshwright
from bench.timing import say
from meshwright.capture import capture_module
from meshwright.planfile import PlanFile
from meshwright.schema import Constraints, Degrees, OptimizerParallel, Pipeline, Request, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.degrees.degrees_planner import plan_stated

ROWS, LENGTH, HIDDEN, VOCABULARY, HEADS = 8, 128, 256, 1024, 8
STRATEGIES: Mapping[str, dict[str, Any]] = {
    "replicas": {"zero": 0},
    "fsdp": {"zero": 3},
    "tensor": {"dp": 1, "sequence_parallel": True},
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.query, self.key, self.value, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, 3 * HIDDEN)
        self.down = nn.Linear(3 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        query, key, value = (
            own(y).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)
            for own in (self.query, self.key, self.value)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def batch_of(rows: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    ids = torch.randint(VOCABULARY, (rows, LENGTH)).to(device)
    return {"ids": ids, "labels": ids.flip(1)}


def planned(layers: int, ranks: int, degrees: Mapping[str, Any]) -> PlanFile:
    graph = capture_module(
        Decoder(layers), lambda sizes: batch_of(sizes["batch"], "meta"),
        symbols={"batch": ROWS}, name="decoder",
    )  # fmt: skip
    setup = Setup(global_batch=ROWS, microbatches=1)
    topology = preset(f"h100-1x{ranks}")
    sizes = {"dp": ranks, **degrees}
    answer = plan_stated(
        Request(
            graph=graph,
            topology=topology,
            setup=setup,
            pipeline=Pipeline(ranks=1),
            degrees=Degrees(tp=ranks // sizes["dp"], **sizes),
            constraints=Constraints(optimizer_parallel=OptimizerParallel(threshold_kb=0)),
        )
    )
    assert answer.plan is not None
    return PlanFile(plan=answer.plan, graph=graph, topology=topology, setup=setup)


def _rank(rank: int, ranks: int, port: int, layers: int, steps: int, folder: Path) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    found = {}
    for name in STRATEGIES:
        plan = folder / f"{name}.json"
        batch = batch_of(ROWS)
        with (
            meshwright.parallelize(Decoder(layers), plan, engine="torch") as own,
            meshwright.parallelize(Decoder(layers), plan, check_module="none") as ops,
        ):
            runs: dict[str, Callable[[], Any]] = {
                "torch": lambda own=own, batch=batch: own.step(**own.slice(batch)),
                "graph": lambda ops=ops, batch=batch: ops.step(**ops.slice(batch)),
            }
            found[name] = _medians(runs, steps)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def _medians(runs: Mapping[str, Callable[[], Any]], steps: int) -> dict[str, float]:
    """Milliseconds of each, in alternation; the first two steps of each warm up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for step in range(steps + 2):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            if step > 1:
                times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: median(own) for name, own in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    module, batch = Decoder(arguments.layers), batch_of(ROWS)
    alone = _medians({"module": lambda: module(**batch).backward()}, arguments.steps)["module"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, degrees in STRATEGIES.items():
            planned(arguments.layers, arguments.ranks, degrees).write(folder / f"{name}.json")
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        processes.start_processes(
            _rank,
            (arguments.ranks, store.port, arguments.layers, arguments.steps, folder),
            nprocs=arguments.ranks,
            start_method="spawn",
        )
        found = json.loads((folder / "found.json").read_text())
    share = alone / arguments.ranks
    say(f"{arguments.layers} layers, {arguments.ranks} ranks; alone / ranks: {share:,.0f} ms")
    say("| strategy | torch, ms | graph, ms | graph / torch | torch x ranks / alone |")
    say("|---|---|---|---|---|")
    for name, own in found.items():
        say(
            f"| {name} | {own['torch']:,.0f} | {own['graph']:,.0f} | "
            f"{own['graph'] / own['torch']:.2f} | {own['torch'] / share:.2f} |"
        )


if __name__ == "__main__":
    main()
