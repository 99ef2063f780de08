"""Four processes that save, load under other plans, and fail to save."""

from __future__ import annotations

import json
import multiprocessing
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing as processes

import meshwright
from meshwright.runtime.reporting import FIRST_STEPS, WARM_UP_STEPS
from meshwright.runtime.torch import Trained
from meshwright.runtime.torch.parallel_model import Form
from meshwright.schema import CheckpointError
from tests.runtime.models import MODELS, Model
from tests.runtime.worlds import ROWS

RANKS, STEPS, LIMIT_BYTES = 4, 3, 4096
LEARNING_RATE, SEED, WHOLE = 3e-3, 7, "whole"
# a step ends when the next one begins
REPORTED_STEPS = WARM_UP_STEPS + FIRST_STEPS + 1
T = torch.Tensor


@dataclass(frozen=True)
class Move:
    """A model trained under one plan, saved, and taken up under another one.

    wanted: losses after the save, where it is there already.
    """

    name: str
    model: str
    before: str
    after: str
    form: Form = "safetensors"
    wanted: tuple[float, ...] = ()


@dataclass(frozen=True)
class Resumed:
    """On one rank. wanted, found: losses after the save, and after the load.

    read_bytes: that the load said; share_bytes: of all that the rank holds then.
    """

    wanted: list[float]
    found: list[float]
    read_bytes: int | None
    share_bytes: int
    extra: dict[str, Any]
    rate: float


def run(
    moves: Sequence[Move], folder: Path, service: str
) -> tuple[dict[str, list[Resumed]], list[tuple[int, int]]]:
    """Of every move what came of it, rank by rank; and by rank, of whole tensors in the folder
    `whole`, bytes read and those of its share. What a full disk was said to be is in files."""
    multiprocessing.set_forkserver_preload([__name__])
    # in memory: heartbeats of ranks whose files are small (`_small_files`) would fail in a file
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    given = tuple(moves), folder, service, store.port
    processes.start_processes(_rank, given, nprocs=RANKS, start_method="forkserver")
    every = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
    whole = [tuple(own[WHOLE]) for own in every]
    return {move.name: [Resumed(**own[move.name]) for own in every] for move in moves}, whole


def _rank(rank: int, moves: Sequence[Move], folder: Path, service: str, port: int) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    found = {move.name: asdict(_moved(move, folder, service)) for move in moves}
    found[WHOLE] = _takes_whole(moves[0], folder, service)
    _fails_to_save(moves[0], folder, service)
    model = MODELS[moves[0].model]
    with started(model, moves[0].after, service, LEARNING_RATE) as (trained, optimizer):
        train(model, trained, optimizer, range(REPORTED_STEPS))
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def _moved(move: Move, folder: Path, service: str) -> Resumed:
    model, kept = MODELS[move.model], folder / move.name
    wanted = list(move.wanted) or saved(move, kept, service)
    with started(model, move.after, service, 1.0) as (trained, optimizer):
        loaded = trained.load(kept, optimizer)
        first = loaded.extra["step"]
        found = train(model, trained, optimizer, range(first, first + STEPS))
        return Resumed(
            wanted,
            found,
            loaded.read_bytes,
            share_bytes(trained, optimizer),
            dict(loaded.extra),
            optimizer.param_groups[0]["lr"],
        )


def saved(move: Move, kept: Path, service: str) -> list[float]:
    """Train, save, and go on: the losses after that."""
    model = MODELS[move.model]
    with started(model, move.before, service, LEARNING_RATE) as (trained, optimizer):
        train(model, trained, optimizer, range(STEPS))
        trained.save(kept, optimizer, extra={"step": STEPS}, form=move.form)
        wanted = train(model, trained, optimizer, range(STEPS, 2 * STEPS))
        if move.form == "safetensors":
            # a second save into the folder, and a return to what is there now
            trained.save(kept, optimizer, extra={"step": 2 * STEPS})
            train(model, trained, optimizer, range(1))
            assert trained.load(kept, optimizer, check="digests").extra == {"step": 2 * STEPS}
            wanted = train(model, trained, optimizer, range(2 * STEPS, 3 * STEPS))
        return wanted


def _takes_whole(move: Move, folder: Path, service: str) -> tuple[int | None, int]:
    """Tensors as Hugging Face has them: each rank reads its share of these alone."""
    model = MODELS[move.model]
    with started(model, move.before, service, LEARNING_RATE) as (trained, optimizer):
        loaded = trained.load(folder / WHOLE)
        torch.manual_seed(SEED)
        wanted = model.build().double()
        for name, own in wanted.named_parameters():
            assert torch.equal(trained.whole(name), own)
        return loaded.read_bytes, share_bytes(trained, optimizer)


def _fails_to_save(move: Move, folder: Path, service: str) -> None:
    """Rank 1 finds its disk full: all say so, and what was saved before is still there."""
    model, kept = MODELS[move.model], folder / move.name
    before = sorted(path.name for path in kept.iterdir())
    with started(model, move.before, service, LEARNING_RATE) as (trained, optimizer):
        train(model, trained, optimizer, range(1))
        try:
            with _small_files(dist.get_rank() == 1):
                trained.save(kept, optimizer)
        except CheckpointError as why:
            (folder / f"full-{dist.get_rank()}.txt").write_text(str(why))
        dist.barrier()
        assert sorted(path.name for path in kept.iterdir()) == before
        trained.load(kept, optimizer, check="digests")


@contextmanager
def started(
    model: Model, plan: str, service: str, rate: float
) -> Iterator[tuple[Trained, torch.optim.Optimizer]]:
    """A job with values of its own on every rank: those that are loaded must count."""
    torch.manual_seed(dist.get_rank())
    module = model.build().double()
    with meshwright.parallelize(module, plan, server=service) as trained:
        yield trained, torch.optim.AdamW(trained.parameters(), lr=rate)


def train(
    model: Model, trained: Trained, optimizer: torch.optim.Optimizer, steps: range
) -> list[float]:
    """The losses of some steps, each with a batch that its number decides."""
    losses = []
    for step in steps:
        torch.manual_seed(1000 + step)
        optimizer.zero_grad()
        losses.append(float(trained.step(**trained.slice(model.batch(ROWS)))))
        optimizer.step()
    return losses


def share_bytes(trained: Trained, optimizer: torch.optim.Optimizer) -> int:
    """Of parameters and states that this rank holds."""
    found = 0
    for parameter in trained.parameters():
        for own in (parameter, *optimizer.state[parameter].values()):
            local = own.to_local() if hasattr(own, "to_local") else own
            found += local.numel() * local.element_size()
    return found


@contextmanager
def _small_files(here: bool) -> Iterator[None]:
    """The kernel ends a write beyond the limit as it does on a full disk, with another errno."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if here:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
