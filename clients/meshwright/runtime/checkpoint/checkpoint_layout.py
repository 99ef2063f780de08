"""Checkpoint layouts: checkpoints of plans, and whole tensors in the format of Hugging Face."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from meshwright.common.files import read_document, read_text
from meshwright.runtime.checkpoint.index_runs import Runs, runs_of
from meshwright.schema import CheckpointError
from meshwright.schema.checkpoint import Checkpoint, CheckpointFile, HeldStage, OptimizerGroup

MANIFEST = "checkpoint.json"
INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
VALUE, OPTIMIZER = "value", "optimizer/"
BLOCK_BYTES = 2**20  # of a read for a digest; chosen


@dataclass(frozen=True)
class StoredPart:
    """A tensor in a file that is a part of a whole tensor.

    `runs` are its indices in the whole tensor, or None for the whole tensor. `shape` is the shape
    of the whole tensor.
    """

    file: Path
    key: str
    runs: tuple[Runs, ...] | None = None
    shape: tuple[int, ...] | None = None


class StoredStates(Protocol):
    """Stored parts by parameter and state. A state is the value or an optimizer state."""

    @property
    def optimizer(self) -> tuple[OptimizerGroup, ...]:
        """The parameter groups of the optimizer; empty without an optimizer."""
        ...

    @property
    def extra(self) -> Mapping[str, Any]:
        """Further values that the job saved with the checkpoint."""
        ...

    def states(self, name: str) -> tuple[str, ...]:
        """The names of the optimizer states of a parameter."""
        ...

    def parts(self, name: str, state: str = VALUE) -> tuple[StoredPart, ...]:
        """The disjoint parts of a state; raises CheckpointError if there is none."""
        ...


def key_of(name: str, state: str = VALUE) -> str:
    """The key in the files for a state of a parameter."""
    return name if state == VALUE else f"{OPTIMIZER}{state}/{name}"


def open_stored(source: Path, names: Mapping[str, tuple[str, ...]]) -> StoredStates:
    """The stored states in a folder with a checkpoint or safetensors files, or in one such file.

    `names` lists the possible names of a parameter in safetensors files; the first match counts.
    Checkpoints of plans use the parameter's name. Raises CheckpointError if there is neither.
    """
    if (source / MANIFEST).is_file():
        return PlannedParts(source, read_document(source / MANIFEST, Checkpoint))
    if source.is_file():
        return WholeTensors({}, source, names)
    if (source / INDEX).is_file():
        return WholeTensors(_index(source), source, names)
    if (source / WHOLE).is_file():
        return WholeTensors({}, source / WHOLE, names)
    raise CheckpointError(
        f"{source} holds neither {MANIFEST} of `trained.save` nor {INDEX} or {WHOLE}"
    )


@dataclass
class PlannedParts:
    """A checkpoint of a plan, written by its ranks."""

    folder: Path
    manifest: Checkpoint
    _files: dict[str, list[CheckpointFile]] = field(default_factory=dict)
    _states: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for file in self.manifest.files:
            for key in file.tensors:
                self._files.setdefault(key, []).append(file)
            _check_size(self.folder / file.name, file)
        for key in self._files:
            if key.startswith(OPTIMIZER):
                _, state, name = key.split("/", 2)
                self._states.setdefault(name, []).append(state)

    @property
    def optimizer(self) -> tuple[OptimizerGroup, ...]:
        return self.manifest.optimizer

    @property
    def extra(self) -> Mapping[str, Any]:
        return self.manifest.extra

    def states(self, name: str) -> tuple[str, ...]:
        return tuple(self._states.get(name, ()))

    def parts(self, name: str, state: str = VALUE) -> tuple[StoredPart, ...]:
        key = key_of(name, state)
        stage = self._stage(name)
        if stage is None or key not in self._files:
            raise CheckpointError(f"{self.folder} has no {key!r}; it is of {self.manifest.graph}")
        layout = stage.layouts[name]
        return tuple(
            StoredPart(
                self.folder / file.name,
                key,
                runs_of(layout, stage.mesh, file.rank - stage.ranks_from),
                layout.shape,
            )
            for file in self._files[key]
            if 0 <= file.rank - stage.ranks_from < stage.mesh.device_count
        )

    def _stage(self, name: str) -> HeldStage | None:
        return next((stage for stage in self.manifest.stages if name in stage.layouts), None)


@dataclass
class WholeTensors:
    """Whole tensors in safetensors files. `files` maps keys to files; by default all to `file`."""

    files: Mapping[str, Path]
    file: Path
    names: Mapping[str, tuple[str, ...]]
    optimizer: tuple[OptimizerGroup, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.files:
            self.files = dict.fromkeys(keys_of(self.file), self.file)

    def states(self, name: str) -> tuple[str, ...]:
        del name  # safetensors files of a model have no optimizer states
        return ()

    def parts(self, name: str, state: str = VALUE) -> tuple[StoredPart, ...]:
        names = self.names.get(name, (name,)) if state == VALUE else ()
        for key in names:
            if key in self.files:
                return (StoredPart(self.files[key], key),)
        keys = " or ".join(map(repr, names or [key_of(name, state)]))
        raise CheckpointError(
            f"{self.file} has no tensor {keys} "
            f"for the parameter; it has {', '.join(sorted(self.files)[:3])}, …. Give its name with "
            "names={parameter: name in the file}"
        )


def keys_of(file: Path) -> list[str]:
    """The keys of a safetensors file; raises CheckpointError if the file is not valid."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as opened:
            return list(opened.keys())
    except (SafetensorError, OSError) as failure:
        raise CheckpointError(f"{file} is not a valid safetensors file: {failure}") from None


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def check_digest(folder: Path, file: CheckpointFile) -> None:
    """Check the digest of a file; raises CheckpointError if the file is damaged."""
    _check_size(folder / file.name, file)
    if digest_of(folder / file.name) != file.digest:
        raise CheckpointError(f"{folder / file.name} is damaged: its digest is not {file.digest}")


def _check_size(path: Path, file: CheckpointFile) -> None:
    try:
        size = path.stat().st_size
    except OSError as failure:
        raise CheckpointError(f"{path} is missing: {failure.strerror}") from None
    if size != file.bytes:
        raise CheckpointError(f"{path} has {size:,} bytes, {file.bytes:,} were written")


def _index(folder: Path) -> dict[str, Path]:
    path = folder / INDEX
    try:
        return {
            key: folder / file for key, file in json.loads(read_text(path))["weight_map"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(
            f"{path} is not an index of safetensors files: it has no weight_map"
        ) from None
