"""MindSpore's parallel front end on a machine without devices, in a process of its own.

The parallel passes take no CPU as a target, and the wheel no Ascend without its libraries. So a
name is registered that nothing stands behind (an exported function of libmindspore_core), the
groups of ranks are answered for in Python, and the compiler stops before the back end. All of the
front end is MindSpore's own: inference of layouts, redistribution, reductions, gradients' groups.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_v", "3")
os.environ["MS_DEV_PRECOMPILE_ONLY"] = "1"

import mindspore
import mindspore._c_expression  # loads libmindspore_core
from mindspore import context
from mindspore.communication import _comm_helper
from mindspore.parallel._auto_parallel_context import auto_parallel_context

_KEPT: list[Any] = []  # what the registered name points to lives as long as the process


class Groups:
    """Sizes of the groups of rank 0: the passes name a group `<size>-<hash>`."""

    def __init__(self, devices: int) -> None:
        self._devices = devices

    def get_rank_size(self, group: str) -> int:
        size = group.split("-")[0]
        return int(size) if size.isdigit() else self._devices

    def get_rank_id(self, group: str) -> int:
        del group
        return 0

    get_local_rank_id = get_rank_id

    def create_group(self, *_: object) -> None:
        return None


def pretend_devices(count: int) -> None:
    """Make this process rank 0 of so many Ascend devices, for the compiler alone."""
    core = ctypes.CDLL(str(Path(mindspore.__file__).parent / "lib" / "libmindspore_core.so"))
    register = core._ZN9mindspore9MsContext16RegisterInitFuncERKSsPFvPS0_E
    register.argtypes, register.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    # a std::string of the old ABI: a pointer to characters behind length, capacity, count of uses
    text = b"Ascend"
    held = ctypes.create_string_buffer(
        struct.pack("<QQiI", len(text), 64, 10**6, 0) + text + bytes(64)
    )
    name = ctypes.c_void_p(ctypes.addressof(held) + 24)
    _KEPT.extend((held, name))
    register(ctypes.addressof(name), ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p))
    _comm_helper.hccl, _comm_helper._HCCL_TEST_AVAILABLE = Groups(count), True
    _comm_helper.GlobalComm.INITED = True
    _comm_helper.GlobalComm.BACKEND = _comm_helper.Backend("hccl")
    context.set_context(mode=context.GRAPH_MODE, device_target="Ascend")
    auto_parallel_context()._context_handle.set_hccl_test_avaible(True)
