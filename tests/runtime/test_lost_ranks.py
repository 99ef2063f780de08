"""Jobs that lose a rank while they train, with real processes: all others end, and name it."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import meshwright
from meshwright.planfile import PlanFile
from meshwright.schema import Degrees, MeshwrightError, Pipeline, Setup
from meshwright_solver.planning.planner import plan
from tests.ports import unused_port
from tests.runtime.models import MODELS, Llama
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

RANKS, ROWS = 3, 6
SILENCE_S = 2.0
# chosen: processes of a busy machine end long before; no backend's own patience (600 s) does
PATIENCE_S = 120.0
SILENT = "rank-lost: rank {} of 3 has been silent for 2 s: it died, or hangs"
GONE = "rank-lost: rank 0, which holds the store of the job, is gone"


@dataclass(frozen=True)
class Fate:
    """What a rank does in its second step, instead of what it calls in torch.distributed."""

    rank: int
    instead_of: str
    does: Callable[..., Any]


def dies(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freezes(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def fails(*_: object, **__: object) -> None:
    raise ValueError("a row that is no row")


def trains(fate: Fate, rank: int, port: int, file: Path) -> None:
    """A rank, and what it ends with."""
    torch.set_num_threads(1)
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
    }  # fmt: skip
    said = file.parent / f"{rank}.txt"
    handler = logging.FileHandler(said, delay=True)
    logging.basicConfig(handlers=[handler], level=logging.CRITICAL, format="%(message)s")
    model = MODELS["llama"]
    try:
        with meshwright.parallelize(Llama(), file, silence_s=SILENCE_S) as trained:
            for step in range(3):
                if step == 1 and rank == fate.rank:
                    setattr(dist, fate.instead_of, fate.does)
                trained.step(**trained.slice(model.batch(ROWS)))
    except (MeshwrightError, ValueError) as why:
        said.write_text(f"{getattr(why, 'slug', 'own')}: {why}")
    # a group whose member is gone is not left in order
    sys.stderr.flush()
    os._exit(0)


def ends(fate: Fate, file: Path) -> dict[int, str]:
    """What each rank that said something ended with."""
    port = unused_port()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    started = [
        context.Process(target=partial(trains, fate), args=(rank, port, file))
        for rank in range(RANKS)
    ]
    for process in started:
        process.start()
    try:
        for rank, process in enumerate(started):
            if rank != fate.rank:
                process.join(PATIENCE_S)
                assert process.exitcode is not None, "a rank hangs"
    finally:
        for process in started:
            process.kill()
            process.join()
    said = {rank: file.parent / f"{rank}.txt" for rank in range(RANKS)}
    return {rank: own.read_text() for rank, own in said.items() if own.exists()}


def planned(file: Path, microbatches: int, **wishes: Any) -> Path:
    graph, devices = MODELS["llama"].graph(ROWS // microbatches), topology(RANKS)
    setup = Setup(global_batch=ROWS, microbatches=microbatches)
    found = plan(toy_request(graph=graph, topology=devices, setup=setup, **wishes)).plan
    assert found is not None
    PlanFile(plan=found, graph=graph, topology=devices, setup=setup).write(file)
    return file


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """Each rank with rows of its own."""
    return planned(tmp_path / "plan.json", 1, degrees=Degrees(dp=RANKS))


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """Each with a stage."""
    return planned(tmp_path / "plan.json", 3, pipeline=Pipeline(ranks=RANKS, schedule="1f1b"))


def test_a_rank_that_is_killed_in_a_step_is_named_by_all_others(alike: Path) -> None:
    found = ends(Fate(1, "all_reduce", dies), alike)
    assert found.keys() == {0, 2}
    assert all(own.startswith(SILENT.format(1)) for own in found.values()), found


def test_so_is_a_stage_to_which_only_its_neighbour_speaks(staged: Path) -> None:
    found = ends(Fate(2, "batch_isend_irecv", dies), staged)
    assert found.keys() == {0, 1}
    assert all(own.startswith(SILENT.format(2)) for own in found.values()), found


def test_so_is_the_rank_that_holds_the_store(alike: Path) -> None:
    found = ends(Fate(0, "all_reduce", dies), alike)
    assert found.keys() == {1, 2}
    assert all(own.startswith(GONE) for own in found.values()), found


def test_a_rank_that_hangs_with_open_connections_ends_the_others_too(alike: Path) -> None:
    found = ends(Fate(1, "all_reduce", freezes), alike)
    assert found.keys() == {0, 2}
    for rank, own in found.items():
        assert own.startswith(f"rank {rank} ends, its backend hangs: rank 1 of 3 has been silent")


def test_a_rank_that_fails_says_why_to_all_others(alike: Path) -> None:
    found = ends(Fate(1, "all_reduce", fails), alike)
    assert found.pop(1) == "own: a row that is no row"
    assert found == dict.fromkeys((0, 2), "rank-lost: rank 1 failed: a row that is no row")
