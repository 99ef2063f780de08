"""Checkpoints of torch.distributed.checkpoint: what other programs of PyTorch read and write.

Keys are those of {"model": …, "optimizer": …} as `torch.distributed.checkpoint.state_dict` gives
them. A rank hands in the boxes that it holds, also where a layout is none of DTensor's: a plain
tensor would pass as whole, and a `_StridedShard` as one box.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.state_dict_loader import load as read_all
from torch.distributed.checkpoint.state_dict_saver import save as write_all

from meshwright.runtime.checkpoint.runs import Runs, boxes
from meshwright.runtime.checkpoint.share import Share
from meshwright.runtime.torch.at_rest import Wraps, local_of
from meshwright.runtime.torch.optimizer_states import (
    Shards,
    groups_of,
    joined_groups,
    put_states,
    set_options,
    states_of,
)
from meshwright.runtime.torch.together import together
from meshwright.schema import CheckpointError
from meshwright.schema.checkpoint import OptimizerGroup
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor
METADATA = ".metadata"
OWN = "meshwright"  # options of the optimizer and what the job keeps, as bytes of JSON


class HeldBoxes(torch.Tensor):
    """A tensor of which this rank holds some boxes, as torch.distributed.checkpoint asks for them.

    No operator knows it: it is only written and read.
    """

    local: T
    held: dict[tuple[int, ...], tuple[slice, ...]]  # offsets in the whole -> where in `local`

    @staticmethod
    def __new__(cls, local: T, shape: Sequence[int], runs: Sequence[Runs]) -> HeldBoxes:
        made: HeldBoxes = torch.Tensor._make_wrapper_subclass(
            cls, tuple(shape), dtype=local.dtype, device=local.device
        )
        made.local = local
        made.held = {tuple(own.start for own in box.source): box.target for box in boxes(runs)}
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch calls it on the class
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{func} of boxes that are only written and read")

    def __create_write_items__(self, fqn: str, _: object) -> list[WriteItem]:
        return [
            WriteItem(
                index=MetadataIndex(fqn, chunk.offsets),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(
                    chunk=chunk,
                    properties=TensorProperties.create_from_tensor(self.local),
                    size=self.shape,
                ),
            )
            for chunk in self.__create_chunk_list__()
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [
            ChunkStorageMetadata(
                offsets=torch.Size(offsets),
                sizes=torch.Size(own.stop - own.start for own in at),
            )
            for offsets, at in self.held.items()
        ]

    def __get_tensor_shard__(self, index: MetadataIndex) -> T:
        assert index.offset is not None
        return self.local[self.held[tuple(index.offset)]]


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
    share = Share(strategy)
    found: dict[str, Any] = {
        f"model.{name}": _held(share, name, local_of(shard.detach()))
        for name, shard in shards.items()
    }
    if optimizer is not None:
        for name, states in states_of(optimizer, shards).items():
            for state, value in states.items():
                is_number = value.dim() == 0
                held = value if is_number else _held(share, name, value)
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
    at_rest: Wraps,
    optimizer: torch.optim.Optimizer | None,
    names: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """Fill this rank's shards, and the states of an optimizer; what was kept beside them."""
    share = Share(strategy)
    wanted: dict[str, T] = {}
    states: dict[str, dict[str, T]] = {}

    def prepare() -> None:
        metadata = FileSystemReader(folder).read_metadata()
        for name, shard in shards.items():
            local, known = local_of(shard.detach()), names.get(name, (name,))
            wanted[_key(folder, metadata, known)] = _held(share, name, local)
            for state, key, stored in _stored_states(metadata, known) if optimizer else ():
                value = _empty(local, stored)
                states.setdefault(name, {})[state] = value
                is_part = value.shape == local.shape
                wanted[key] = _held(share, name, value) if is_part else value
        own = metadata.state_dict_metadata.get(OWN)
        if isinstance(own, TensorStorageMetadata):
            wanted[OWN] = torch.empty(own.size, dtype=torch.uint8)
        if optimizer is not None and not states:
            raise CheckpointError(f"{folder} holds no optimizer's states; load it without one")

    together(f"loading {folder}", prepare)
    read_all(wanted, storage_reader=FileSystemReader(folder))
    kept = json.loads(bytes(wanted[OWN].tolist())) if OWN in wanted else {}
    if optimizer is not None:
        put_states(optimizer, shards, states, at_rest)
        if kept:
            groups = tuple(OptimizerGroup.model_validate(group) for group in kept["groups"])
            set_options(optimizer, shards, groups)
    extra: dict[str, Any] = kept.get("extra", {})
    return extra


def _held(share: Share, name: str, local: T) -> HeldBoxes:
    return HeldBoxes(local, share.shape(name), share.runs(name))


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
