"""A checkpoint written: every rank its file, then one document that makes them a checkpoint.

Files have names of their own for every save. The document is replaced by a rename when all files
are on disk, and only then the files of the last save go: whenever a process ends, one whole
checkpoint is there.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import save_file

from meshwright.files import write_whole
from meshwright.runtime.checkpoint.share import Share
from meshwright.runtime.checkpoint.stored import MANIFEST, digest_of, key_of
from meshwright.runtime.torch.at_rest import local_of
from meshwright.runtime.torch.checkpoint.optimizer_states import (
    groups_of,
    joined_groups,
    states_of,
)
from meshwright.runtime.torch.checkpoint.shards import Shards, first_shards
from meshwright.runtime.torch.checkpoint.together import together
from meshwright.schema import CheckpointError, InvalidInput
from meshwright.schema.checkpoint import Checkpoint, CheckpointFile, HeldStage, OptimizerGroup
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor
FILES = "rank-*-of-*.safetensors"


class Written(NamedTuple):
    """Of one rank. file: None where others hold all that it holds."""

    file: CheckpointFile | None
    stages: tuple[HeldStage, ...]
    groups: tuple[OptimizerGroup, ...]


def save(
    folder: Path,
    strategy: RankStrategy,
    shards: Shards,
    optimizer: torch.optim.Optimizer | None,
    extra: Mapping[str, Any],
) -> None:
    """Write a checkpoint. CheckpointError on all ranks where one fails; what was there stays."""
    names: list[str | None] = [uuid.uuid4().hex[:8]]
    dist.broadcast_object_list(names)
    file = folder / f"rank-{strategy.rank:05}-of-{strategy.world_size:05}.{names[0]}.safetensors"

    def write() -> Written:
        return _written(file, strategy, shards, optimizer)

    def commit() -> None:
        if strategy.rank == 0:
            _commit(folder, strategy, every, extra)

    try:
        every = together(f"saving to {folder}", write)
        together(f"saving to {folder}", commit)
    except CheckpointError:
        # some rank said so, and nothing was committed; of a broken group nobody knows
        file.unlink(missing_ok=True)
        raise


def local_values(
    shards: Shards, optimizer: torch.optim.Optimizer | None
) -> dict[tuple[str, str], T]:
    """(parameter, state) -> this rank's part, of every state."""
    found = {
        (name, "value"): local_of(shards[own].detach())
        for name, own in first_shards(shards).items()
    }
    if optimizer is not None:
        for name, states in states_of(optimizer, shards).items():
            found |= {(name, state): value for state, value in states.items()}
    return found


def _written(
    file: Path, strategy: RankStrategy, shards: Shards, optimizer: torch.optim.Optimizer | None
) -> Written:
    share = Share(strategy)
    groups = () if optimizer is None else groups_of(optimizer, shards)
    tensors = {
        key_of(*of): value.cpu().contiguous()
        for of, value in local_values(shards, optimizer).items()
        if share.writes(of[0])
    }
    # of the ranks of a stage the first one tells
    stages = tuple(stage for stage in share.stages if stage.ranks_from == strategy.rank)
    if not tensors:
        return Written(None, stages, groups)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, file)
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
        size, digest = file.stat().st_size, digest_of(file)
    except (SafetensorError, OSError) as failure:
        raise CheckpointError(
            f"{file} cannot be written, the last checkpoint stays: {failure}"
        ) from None
    made = CheckpointFile(
        name=file.name, rank=strategy.rank, bytes=size, digest=digest, tensors=tuple(tensors)
    )
    return Written(made, stages, groups)


def _commit(
    folder: Path, strategy: RankStrategy, every: list[Written], extra: Mapping[str, Any]
) -> None:
    manifest = Checkpoint(
        plan=strategy.plan,
        graph=strategy.graph,
        world_size=strategy.world_size,
        stages=tuple(
            sorted(
                (stage for written in every for stage in written.stages),
                key=lambda stage: stage.number,
            )
        ),
        files=tuple(written.file for written in every if written.file is not None),
        optimizer=joined_groups(written.groups for written in every),
        extra=dict(extra),
    )
    try:
        _sync(folder)
        write_whole(folder / MANIFEST, manifest.to_json() + "\n")
    except (InvalidInput, OSError) as failure:
        raise CheckpointError(f"{failure}; the last checkpoint stays") from None
    names = {file.name for file in manifest.files}
    with suppress(OSError):  # what is left over goes with the next save
        _sync(folder)
        for old in folder.glob(FILES):
            if old.name not in names:
                old.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Let the names in a folder outlast a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def plain_json(extra: Mapping[str, Any]) -> dict[str, Any]:
    """What a job keeps beside its checkpoint; InvalidInput where JSON does not hold it."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as failure:
        raise InvalidInput(f"what is kept beside a checkpoint must be JSON: {failure}") from None
    return found
