"""Saving of checkpoints: every rank writes its file, then the first rank commits the index.

Every save has new file names. A rename replaces the index after all files are on disk, and then the
first rank deletes the files of the previous save. At any time the folder has one whole checkpoint.
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

from meshwright.common.files import write_whole
from meshwright.runtime.checkpoint.checkpoint_layout import MANIFEST, digest_of, key_of
from meshwright.runtime.checkpoint.shard_ownership import RankShards
from meshwright.runtime.torch.at_rest import local_of
from meshwright.runtime.torch.checkpoint.collective_check import together
from meshwright.runtime.torch.checkpoint.optimizer_states import groups_of, joined_groups, states_of
from meshwright.runtime.torch.checkpoint.shards import Shards, first_shards
from meshwright.schema import CheckpointError, InvalidInput
from meshwright.schema.checkpoint import Checkpoint, CheckpointFile, HeldStage, OptimizerGroup
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor
FILES = "rank-*-of-*.safetensors"


class Written(NamedTuple):
    """The result of one rank's save. `file` is None if replicas write all of its shards."""

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
    """Write a checkpoint.

    Raises CheckpointError on all ranks if one fails. The previous checkpoint then stays.
    """
    names: list[str | None] = [uuid.uuid4().hex[:8]]
    dist.broadcast_object_list(names)
    file = folder / f"rank-{strategy.rank:05}-of-{strategy.world_size:05}.{names[0]}.safetensors"

    def write() -> Written:
        return _write(file, strategy, shards, optimizer)

    def commit() -> None:
        if strategy.rank == 0:
            _commit(folder, strategy, every, extra)

    try:
        every = together(f"saving to {folder}", write)
        together(f"saving to {folder}", commit)
    except CheckpointError:
        # a rank reported the failure, so that nothing is committed; other errors leave this open
        file.unlink(missing_ok=True)
        raise


def local_values(
    shards: Shards, optimizer: torch.optim.Optimizer | None
) -> dict[tuple[str, str], T]:
    """This rank's shards of all states, by (parameter, state)."""
    values = {
        (name, "value"): local_of(shards[which].detach())
        for name, which in first_shards(shards).items()
    }
    if optimizer is not None:
        for name, states in states_of(optimizer, shards).items():
            values |= {(name, state): value for state, value in states.items()}
    return values


def _write(
    file: Path, strategy: RankStrategy, shards: Shards, optimizer: torch.optim.Optimizer | None
) -> Written:
    share = RankShards(strategy)
    groups = () if optimizer is None else groups_of(optimizer, shards)
    tensors = {
        key_of(*of): value.cpu().contiguous()
        for of, value in local_values(shards, optimizer).items()
        if share.writes(of[0])
    }
    # the first rank of a stage reports it
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
    entry = CheckpointFile(
        name=file.name, rank=strategy.rank, bytes=size, digest=digest, tensors=tuple(tensors)
    )
    return Written(entry, stages, groups)


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
    with suppress(OSError):  # the next save deletes the remaining files
        _sync(folder)
        for old in folder.glob(FILES):
            if old.name not in names:
                old.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Write the entries of a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def plain_json(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The job's extra values as JSON; raises InvalidInput if they are not valid JSON."""
    try:
        values: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as failure:
        raise InvalidInput(f"what is kept beside a checkpoint must be JSON: {failure}") from None
    return values
