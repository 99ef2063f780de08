"""Accelerator of this process: a GPU, an NPU, or the CPU on machines without these."""

from __future__ import annotations

import importlib.util
import os
import platform
from dataclasses import dataclass
from typing import Any

import torch

from meshwright.schema.samples import Backend

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device to measure.

    kind: torch's device type. dtypes: the dtypes of measured matrix products.
    """

    kind: str
    index: int
    name: str
    memory_bytes: int
    dtypes: tuple[torch.dtype, ...]

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.kind == "cpu" else torch.device(self.kind, self.index)

    @property
    def backend(self) -> Backend:
        """The backend of its collectives."""
        match self.kind:
            case "cuda":
                return "nccl"
            case "npu":
                return "hccl"
            case _:
                return "gloo"

    def synchronize(self) -> None:
        """Wait for the work submitted to the device."""
        if self.kind != "cpu":
            _module(self.kind).synchronize(self.index)


def find_accelerator(local_rank: int) -> Accelerator:
    """The device of the process with this local rank."""
    kind = _kind_here()
    if kind is not None:
        return _card(kind, local_rank)
    return Accelerator("cpu", 0, _processor(), _main_memory(), (torch.float32,))


def processes_here() -> int:
    """The number of processes on this machine: one per GPU or NPU, two on a CPU."""
    kind = _kind_here()
    return 2 if kind is None else int(_module(kind).device_count())


def _kind_here() -> str | None:
    """The device type of this machine's cards; None without cards."""
    if torch.cuda.is_available():
        return "cuda"
    if importlib.util.find_spec("torch_npu") is not None:
        importlib.import_module("torch_npu")
        if _module("npu").is_available():
            return "npu"
    return None


def _card(kind: str, local_rank: int) -> Accelerator:
    module = _module(kind)
    index = local_rank % module.device_count()
    module.set_device(index)
    properties = module.get_device_properties(index)
    dtypes = (torch.bfloat16, torch.float16, torch.float32)
    return Accelerator(kind, index, properties.name, properties.total_memory, dtypes)


def _module(kind: str) -> Any:
    return getattr(torch, kind)


def _processor() -> str:
    """The CPU model of /proc/cpuinfo, else the machine's architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine() or "CPU"


def _main_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return GIB
