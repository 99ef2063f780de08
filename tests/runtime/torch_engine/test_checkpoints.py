"""Checkpoints of the engine `torch`: another number of ranks goes on where a job ended."""

from __future__ import annotations

import json
import logging
import multiprocessing
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing as processes

import meshwright
from meshwright.schema import CheckpointError
from tests.runtime.torch_engine.models import MODELS
from tests.runtime.torch_engine.worlds import ROWS, Case, planned

SP = {"sequence_parallel": True}
JOBS = (
    Case("four", "odd", {"dp": 2, "tp": 2, "zero": 3, **SP}, sizes=(2, 2)),
    Case("two", "odd", {"dp": 2, "zero": 3}),
)
STEPS = 2


def run(case: Case, size: int, folder: Path) -> dict[str, list[float]]:
    planned(case, size).write(folder / "plan.json")
    multiprocessing.set_forkserver_preload([__name__])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes.start_processes(
        _rank, (size, store.port, case, folder), nprocs=size, start_method="forkserver"
    )
    found: dict[str, list[float]] = json.loads((folder / "out.json").read_text())
    return found


def _rank(rank: int, size: int, port: int, case: Case, folder: Path) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    torch.manual_seed(rank)
    model = MODELS[case.model]
    losses, norms, begin = [], [], 0
    module = model.build().double()
    with meshwright.parallelize(module, folder / "plan.json", engine="torch") as trained:
        optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-2)
        with pytest.raises(CheckpointError, match="no complete checkpoint"):
            trained.load(folder / "nowhere", optimizer)
        if (folder / "kept").exists():
            begin = trained.load(folder / "kept", optimizer)["steps"]
        for step in range(begin, begin + 2 * STEPS):
            torch.manual_seed(step)
            losses.append(float(trained.step(**trained.slice(model.batch(ROWS)))))
            norms.append(float(trained.clip_grad_norm_(0.5)))
            optimizer.step()
            optimizer.zero_grad()
            if step + 1 == STEPS:
                trained.save(folder / "kept", extra={"steps": 0})
                trained.save(folder / "kept", optimizer, extra={"steps": STEPS})
    if rank == 0:
        (folder / "out.json").write_text(json.dumps({"losses": losses, "norms": norms}))
    dist.destroy_process_group()


def test_another_number_of_ranks_goes_on(tmp_path: Path) -> None:
    four, two = JOBS
    first = run(four, 4, tmp_path)
    second = run(two, 2, tmp_path)
    for name in ("losses", "norms"):
        assert second[name][:STEPS] == pytest.approx(first[name][STEPS:], rel=1e-9)
    assert min(first["norms"]) > 0.5  # so that clipping takes part
    assert sorted(path.name for path in tmp_path.glob("kept*")) == ["kept"]
