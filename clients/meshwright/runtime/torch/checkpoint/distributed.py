"""Checkpoints of torch.distributed.checkpoint: what other programs of PyTorch read and write.

Keys are those of {"model": …, "optimizer": …} as `torch.distributed.checkpoint.state_dict` gives
them.
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

from meshwright.runtime.checkpoint.share import Share
from meshwright.runtime.torch.at_rest import Wraps, local_of
from meshwright.runtime.torch.checkpoint.held_boxes import HeldBoxes
from meshwright.runtime.torch.checkpoint.optimizer_states import (
    groups_of,
    joined_groups,
    put_states,
    set_options,
    states_of,
)
from meshwright.runtime.torch.checkpoint.shards import ShardId, Shards, first_shards
from meshwright.runtime.torch.checkpoint.together import together
from meshwright.schema import CheckpointError
from meshwright.schema.checkpoint import OptimizerGroup
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor
METADATA = ".metadata"
OWN = "meshwright"  # options of the optimizer and what the job keeps, as bytes of JSON


def save(
    folder: Path,
    strategy: RankStrategy,
    shards: Shards,
    optimizer: torch.optim.Optimizer | None,
    extra: Mapping[str, Any],
) -> None:
    """Write a checkpoint into a folder of its own; CheckpointError where there is one already."""
    if (folder / METADATA).exists():
        raise CheckpointError(
            f"{folder} holds a checkpoint, whose files torch.distributed.checkpoint would replace "
            "one by one; give every checkpoint a folder of its own"
        )
    share, firsts = Share(strategy), first_shards(shards)
    found: dict[str, Any] = {
        f"model.{name}": _held(share, {own: local_of(shards[own].detach())})
        for name, own in firsts.items()
    }
    if optimizer is not None:
        for name, states in states_of(optimizer, shards).items():
            for state, value in states.items():
                is_number = value.dim() == 0
                held = value if is_number else _held(share, {firsts[name]: value})
                found[f"optimizer.state.{name}.{state}"] = held
    every = together(
        f"saving to {folder}", lambda: () if optimizer is None else groups_of(optimizer, shards)
    )
    own = {"groups": [group.model_dump() for group in joined_groups(every)], "extra": dict(extra)}
    found[OWN] = torch.frombuffer(bytearray(json.dumps(own).encode()), dtype=torch.uint8)
    write_all(found, storage_writer=FileSystemWriter(folder, sync_files=True))


def load(
    folder: Path,
    strategy: RankStrategy,
    shards: Shards,
    at_rest: Mapping[int, Wraps],
    optimizer: torch.optim.Optimizer | None,
    names: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """Fill this rank's shards, and the states of an optimizer; what was kept beside them."""
    share = Share(strategy)
    wanted: dict[str, T] = {}
    states: dict[ShardId, dict[str, T]] = {}

    def prepare() -> None:
        metadata = FileSystemReader(folder).read_metadata()
        for name in first_shards(shards):
            known = names.get(name, (name,))
            locals_ = {
                own: local_of(shard.detach()) for own, shard in shards.items() if own.name == name
            }
            wanted[_key(folder, metadata, known)] = _held(share, locals_)
            for state, key, stored in _stored_states(metadata, known) if optimizer else ():
                made = {own: _empty(local, stored) for own, local in locals_.items()}
                is_part = all(own.shape == locals_[which].shape for which, own in made.items())
                wanted[key] = _held(share, made) if is_part else next(iter(made.values()))
                for which, own in made.items():
                    states.setdefault(which, {})[state] = own if is_part else wanted[key]
        beside = metadata.state_dict_metadata.get(OWN)
        if isinstance(beside, TensorStorageMetadata):
            wanted[OWN] = torch.empty(beside.size, dtype=torch.uint8)
        if optimizer is not None and not states:
            raise CheckpointError(f"{folder} holds no optimizer's states; load it without one")

    together(f"loading {folder}", prepare)
    read_all(wanted, storage_reader=FileSystemReader(folder))
    kept = json.loads(bytes(wanted[OWN].tolist())) if OWN in wanted else {}
    if optimizer is not None:
        # a number is read once, and each shard counts on from it alone
        own_states = {
            which: {state: own if own.dim() else own.clone() for state, own in found.items()}
            for which, found in states.items()
        }
        put_states(optimizer, shards, own_states, at_rest)
        if kept:
            groups = tuple(OptimizerGroup.model_validate(group) for group in kept["groups"])
            set_options(optimizer, shards, groups)
    extra: dict[str, Any] = kept.get("extra", {})
    return extra


def _held(share: Share, locals_: Mapping[ShardId, T]) -> HeldBoxes:
    """What the rank has of one parameter, or of a state of it."""
    name = next(iter(locals_)).name
    return HeldBoxes(
        share.shape(name), [(local, share.runs(*own)) for own, local in locals_.items()]
    )


def _empty(local: T, stored: TensorStorageMetadata) -> T:
    """Room for a state of a parameter. Numbers lie on the host, as optimizers make them."""
    dtype = stored.properties.dtype
    if not stored.size and local.dim():
        return torch.empty((), dtype=dtype)
    return torch.empty_like(local, dtype=dtype)


def _key(folder: Path, metadata: Metadata, known: Sequence[str]) -> str:
    """The key of a parameter that may be called so."""
    keys = metadata.state_dict_metadata
    for key in (key for own in known for key in (f"model.{own}", own)):
        if key in keys:
            return key
    raise CheckpointError(
        f"{folder} has no {' or '.join(repr(f'model.{own}') for own in known)}; it has "
        f"{', '.join(sorted(keys)[:3])}, …; say with names={{parameter: name there}} what it is "
        "called"
    )


def _stored_states(
    metadata: Metadata, known: Sequence[str]
) -> list[tuple[str, str, TensorStorageMetadata]]:
    """State, its key and what is stored of it."""
    found = []
    for key, stored in metadata.state_dict_metadata.items():
        for own in known:
            state = key.removeprefix(f"optimizer.state.{own}.")
            if state != key and "." not in state and isinstance(stored, TensorStorageMetadata):
                found.append((state, key, stored))
    return found
