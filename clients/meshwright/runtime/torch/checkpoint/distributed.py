"""Checkpoints of torch.distributed.checkpoint, which other PyTorch programs read and write.

Keys are those of {"model": …, "optimizer": …} in `torch.distributed.checkpoint.state_dict`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as read_all
from torch.distributed.checkpoint.state_dict_saver import save as write_all

from meshwright.runtime.checkpoint.shard_ownership import RankShards
from meshwright.runtime.torch.at_rest import Wraps, local_of
from meshwright.runtime.torch.checkpoint.collective_check import together
from meshwright.runtime.torch.checkpoint.local_boxes import HeldBoxes
from meshwright.runtime.torch.checkpoint.optimizer_states import (
    groups_of,
    joined_groups,
    put_states,
    set_options,
    states_of,
)
from meshwright.runtime.torch.checkpoint.shards import ShardId, Shards, first_shards
from meshwright.schema import CheckpointError
from meshwright.schema.checkpoint import OptimizerGroup
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor
METADATA = ".metadata"
OWN = "meshwright"  # the key of optimizer options and the job's extra values, as bytes of JSON


def save(
    folder: Path,
    strategy: RankStrategy,
    shards: Shards,
    optimizer: torch.optim.Optimizer | None,
    extra: Mapping[str, Any],
) -> None:
    """Write a checkpoint to an empty folder; raises CheckpointError if it has a checkpoint."""
    if (folder / METADATA).exists():
        raise CheckpointError(
            f"{folder} holds a checkpoint, whose files torch.distributed.checkpoint would replace "
            "one by one; give every checkpoint a folder of its own"
        )
    share, firsts = RankShards(strategy), first_shards(shards)
    entries: dict[str, Any] = {
        f"model.{name}": _boxes(share, {which: local_of(shards[which].detach())})
        for name, which in firsts.items()
    }
    if optimizer is not None:
        for name, states in states_of(optimizer, shards).items():
            for state, value in states.items():
                is_number = value.dim() == 0
                entry = value if is_number else _boxes(share, {firsts[name]: value})
                entries[f"optimizer.state.{name}.{state}"] = entry
    every = together(
        f"saving to {folder}", lambda: () if optimizer is None else groups_of(optimizer, shards)
    )
    groups = [group.model_dump() for group in joined_groups(every)]
    text = json.dumps({"groups": groups, "extra": dict(extra)})
    entries[OWN] = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    write_all(entries, storage_writer=FileSystemWriter(folder, sync_files=True))


def load(
    folder: Path,
    strategy: RankStrategy,
    shards: Shards,
    at_rest: Mapping[int, Wraps],
    optimizer: torch.optim.Optimizer | None,
    names: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """Load this rank's shards and the optimizer states. Returns the job's extra values."""
    share = RankShards(strategy)
    entries: dict[str, T] = {}
    states: dict[ShardId, dict[str, T]] = {}

    def prepare() -> None:
        metadata = FileSystemReader(folder).read_metadata()
        for name in first_shards(shards):
            known = names.get(name, (name,))
            locals_ = {
                which: local_of(shard.detach())
                for which, shard in shards.items()
                if which.name == name
            }
            entries[_key(folder, metadata, known)] = _boxes(share, locals_)
            for state, key, stored in _stored_states(metadata, known) if optimizer else ():
                empty = {which: _empty(local, stored) for which, local in locals_.items()}
                is_part = all(value.shape == locals_[which].shape for which, value in empty.items())
                entries[key] = _boxes(share, empty) if is_part else next(iter(empty.values()))
                for which, value in empty.items():
                    states.setdefault(which, {})[state] = value if is_part else entries[key]
        extra_metadata = metadata.state_dict_metadata.get(OWN)
        if isinstance(extra_metadata, TensorStorageMetadata):
            entries[OWN] = torch.empty(extra_metadata.size, dtype=torch.uint8)
        if optimizer is not None and not states:
            raise CheckpointError(f"{folder} holds no optimizer's states; load it without one")

    together(f"loading {folder}", prepare)
    read_all(entries, storage_reader=FileSystemReader(folder))
    values = json.loads(bytes(entries[OWN].tolist())) if OWN in entries else {}
    if optimizer is not None:
        # a number is read once, and every shard needs a separate copy
        copies = {
            which: {
                state: value if value.dim() else value.clone() for state, value in of_shard.items()
            }
            for which, of_shard in states.items()
        }
        put_states(optimizer, shards, copies, at_rest)
        if values:
            groups = tuple(OptimizerGroup.model_validate(group) for group in values["groups"])
            set_options(optimizer, shards, groups)
    extra: dict[str, Any] = values.get("extra", {})
    return extra


def _boxes(share: RankShards, locals_: Mapping[ShardId, T]) -> HeldBoxes:
    """The boxes of this rank in one parameter, or in a state of it."""
    name = next(iter(locals_)).name
    return HeldBoxes(
        share.shape(name), [(local, share.runs(*which)) for which, local in locals_.items()]
    )


def _empty(local: T, stored: TensorStorageMetadata) -> T:
    """An empty tensor for a state of a parameter. Numbers are on the CPU, as in optimizers."""
    dtype = stored.properties.dtype
    if not stored.size and local.dim():
        return torch.empty((), dtype=dtype)
    return torch.empty_like(local, dtype=dtype)


def _key(folder: Path, metadata: Metadata, known: Sequence[str]) -> str:
    """The key of a parameter with these possible names."""
    keys = metadata.state_dict_metadata
    for key in (key for name in known for key in (f"model.{name}", name)):
        if key in keys:
            return key
    raise CheckpointError(
        f"{folder} has no {' or '.join(repr(f'model.{name}') for name in known)}; it has "
        f"{', '.join(sorted(keys)[:3])}, …. Give its name with names={{parameter: name in the "
        "checkpoint}"
    )


def _stored_states(
    metadata: Metadata, known: Sequence[str]
) -> list[tuple[str, str, TensorStorageMetadata]]:
    """The optimizer states of a parameter, with their keys and metadata."""
    states = []
    for key, stored in metadata.state_dict_metadata.items():
        for name in known:
            state = key.removeprefix(f"optimizer.state.{name}.")
            if state != key and "." not in state and isinstance(stored, TensorStorageMetadata):
                states.append((state, key, stored))
    return states
