"""Loading of checkpoints: every rank reads its parts from all files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open

from meshwright.runtime.checkpoint.checkpoint_layout import (
    PlannedParts,
    StoredPart,
    StoredStates,
    check_digest,
    open_stored,
)
from meshwright.runtime.checkpoint.index_runs import Runs, shared, whole
from meshwright.runtime.checkpoint.shard_ownership import RankShards
from meshwright.runtime.torch.at_rest import Wraps, local_of
from meshwright.runtime.torch.checkpoint import distributed
from meshwright.runtime.torch.checkpoint.collective_check import together
from meshwright.runtime.torch.checkpoint.optimizer_states import members, put_states, set_options
from meshwright.runtime.torch.checkpoint.shards import ShardId, Shards
from meshwright.schema import CheckpointError
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor
Check = Literal["sizes", "digests"]


@dataclass(frozen=True)
class Loaded:
    """The result of loading a checkpoint.

    `read_bytes` are the bytes of tensors that this rank read; None if PyTorch read them. `extra`
    are the job's extra values.
    """

    read_bytes: int | None
    extra: Mapping[str, Any] = field(default_factory=dict)


def load(
    source: Path,
    strategy: RankStrategy,
    shards: Shards,
    at_rest: Mapping[int, Wraps],
    optimizer: torch.optim.Optimizer | None,
    *,
    names: Mapping[str, tuple[str, ...]],
    check: Check,
) -> Loaded:
    """Load this rank's shards and the optimizer states.

    Raises CheckpointError on all ranks if one fails. The shards are then partly loaded.
    """
    if (source / distributed.METADATA).exists():
        if check == "digests":
            raise CheckpointError(f"{source}: PyTorch's checkpoints have no digests; check sizes")
        extra = distributed.load(source, strategy, shards, at_rest, optimizer, names)
        return Loaded(None, extra)

    def read() -> Loaded:
        stored = open_stored(source, names)
        if optimizer is not None and not stored.optimizer:
            raise CheckpointError(f"{source} holds no optimizer's states; load it without one")
        if check == "digests":
            _check_files(stored, strategy)
        with TensorReader() as reader:
            loader = _ShardLoader(stored, RankShards(strategy), reader)
            for which, shard in shards.items():
                loader.into(which, local_of(shard.detach()))
            if optimizer is not None:
                set_options(optimizer, shards, stored.optimizer)
                states = {
                    which: loader.states(which, local_of(shard.detach()))
                    for which, shard in members(optimizer, shards).items()
                }
                put_states(optimizer, shards, states, at_rest)
            return Loaded(reader.read_bytes, dict(stored.extra))

    return together(f"loading {source}", read)[dist.get_rank()]


def _check_files(stored: StoredStates, strategy: RankStrategy) -> None:
    """Check the digests of the files; each rank reads a part of them."""
    if not isinstance(stored, PlannedParts):
        raise CheckpointError("whole tensors come without digests; check sizes")
    for file in stored.manifest.files[strategy.rank :: strategy.world_size]:
        check_digest(stored.folder, file)


class TensorReader:
    """A reader of boxes of tensors in safetensors files. `read_bytes` counts the bytes."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self._stack = ExitStack()
        self._open: dict[Path, Any] = {}

    def __enter__(self) -> TensorReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def shape(self, part: StoredPart) -> tuple[int, ...]:
        """The shape of the tensor in the file."""
        return tuple(self._slice(part).get_shape())

    def box(self, part: StoredPart, at: tuple[slice, ...]) -> T:
        """A box of the tensor in the file."""
        box: T = self._slice(part)[at]
        self.read_bytes += box.numel() * box.element_size()
        return box

    def _slice(self, part: StoredPart) -> Any:
        try:
            if part.file not in self._open:
                file = safe_open(part.file, framework="pt", device="cpu")
                self._open[part.file] = self._stack.enter_context(file)
            return self._open[part.file].get_slice(part.key)
        except (SafetensorError, OSError) as failure:
            raise CheckpointError(f"{part.file}: {part.key!r} cannot be read: {failure}") from None


@dataclass(frozen=True)
class _ShardLoader:
    """The loader of a rank's shards from stored states."""

    stored: StoredStates
    share: RankShards
    reader: TensorReader

    def into(self, which: ShardId, local: T) -> None:
        """Load a parameter into its shard."""
        self._copy(self.stored.parts(which.name), self.share.runs(*which), local, which.name)

    def states(self, which: ShardId, like: T) -> dict[str, T]:
        """The optimizer states of a parameter whose shard is `like`."""
        states = {}
        for state in self.stored.states(which.name):
            parts = self.stored.parts(which.name, state)
            if self.reader.shape(parts[0]) == () and like.dim():
                states[state] = self.reader.box(parts[0], ()).clone()
                continue
            dtype = self.reader.box(parts[0], (slice(0, 0),) * like.dim()).dtype
            local = torch.empty_like(like, dtype=dtype)
            self._copy(parts, self.share.runs(*which), local, which.name)
            states[state] = local
        return states

    def _copy(self, parts: Sequence[StoredPart], runs: Sequence[Runs], local: T, name: str) -> None:
        """Copy stored parts of a state of the parameter `name` into a local shard."""
        shape, missing = parts[0].shape or self.reader.shape(parts[0]), local.numel()
        if shape != self.share.shape(name):
            raise CheckpointError(
                f"{parts[0].key!r} has the shape {list(shape)} in {parts[0].file.parent}, the "
                f"parameter {name!r} {list(self.share.shape(name))}"
            )
        for part in parts:
            part_runs = whole(shape) if part.runs is None else part.runs
            for box in shared(part_runs, runs):
                piece = self.reader.box(part, box.source)
                local[box.target].copy_(piece)
                missing -= piece.numel()
        if missing:
            raise CheckpointError(
                f"{parts[0].key!r}: the files lack {missing:,} of the {local.numel():,} elements "
                "of this rank"
            )
