"""Checkpoints of a module and its optimizer, by torch.distributed.checkpoint.

A checkpoint is written beside the previous one and takes its place when it is complete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from meshwright.runtime.torch.checkpoint.saving import plain_json
from meshwright.schema import CheckpointError

_METADATA, _EXTRA = ".metadata", "extra.json"  # PyTorch writes the first one last
Optimizer = torch.optim.Optimizer


def save_checkpoint(
    folder: Path, module: nn.Module, optimizer: Optimizer | None, extra: Mapping[str, Any]
) -> None:
    """Write a checkpoint. The names are those of the module's `state_dict`."""
    values = plain_json(extra)
    new, old = _beside(folder)
    is_first = dist.get_rank() == 0
    if is_first:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
    dist.barrier()
    try:
        save(_state(module, optimizer), storage_writer=FileSystemWriter(new))
    except CheckpointException as why:
        raise CheckpointError(f"{folder}: the checkpoint was not written: {why}") from why
    if is_first:
        (new / _EXTRA).write_text(json.dumps(values))
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    dist.barrier()


def load_checkpoint(folder: Path, module: nn.Module, optimizer: Optimizer | None) -> dict[str, Any]:
    """Load a checkpoint, of any number of ranks. Returns the `extra` of `save_checkpoint`."""
    found = next((own for own in (folder, *_beside(folder)) if (own / _METADATA).is_file()), None)
    if found is None:
        raise CheckpointError(f"{folder} has no complete checkpoint")
    state = _state(module, optimizer)
    try:
        load(state, storage_reader=FileSystemReader(found))
    except CheckpointException as why:
        raise CheckpointError(f"{found} does not fit the module: {_reason(why)}") from why
    if optimizer is None:
        set_model_state_dict(module, state["model"])
    else:
        set_state_dict(
            module,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
    extra = found / _EXTRA
    return json.loads(extra.read_text()) if extra.is_file() else {}


def _state(module: nn.Module, optimizer: Optimizer | None) -> dict[str, Any]:
    if optimizer is None:
        return {"model": get_model_state_dict(module)}
    model, states = get_state_dict(module, optimizer)
    return {"model": model, "optimizer": states}


def _beside(folder: Path) -> tuple[Path, Path]:
    """The folders of a checkpoint that is being written, and of one that is being replaced."""
    return folder.with_name(f"{folder.name}.new"), folder.with_name(f"{folder.name}.old")


def _reason(why: CheckpointException) -> str:
    return "; ".join(dict.fromkeys(str(failure[0]) for failure in why.failures.values()))
