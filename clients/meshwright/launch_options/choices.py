"""LauncherChoices: the strategies of a launcher, as values that a search may combine."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.schema.degrees import ZeroStage
from meshwright.schema.pipeline import ScheduleKind
from meshwright.schema.recompute import RecomputePolicy


class LauncherChoices(NamedTuple):
    """The values that the options of a launcher have.

    A combination may still be one that the launcher refuses: its function `lost` says so.

    zero: stages of ZeRO over several devices. zero_of_pipelines: the same with several pipeline
    ranks. schedules: of pipelines; none without pipelines. recompute: the policies. tensor,
    context, expert: whether these degrees may exceed 1. sequence_parallel: whether tensor
    parallelism comes with it. hybrid: whether ZeRO may shard over a part of the devices (HSDP).
    partial: whether `full` recomputation may be that of the first layers of each stage only.
    shards_all: whether ZeRO shards the smallest parameters too.
    """

    zero: tuple[ZeroStage, ...]
    zero_of_pipelines: tuple[ZeroStage, ...] = ()
    schedules: tuple[ScheduleKind, ...] = ()
    recompute: tuple[RecomputePolicy, ...] = ("none", "full")
    tensor: bool = False
    context: bool = False
    expert: bool = False
    sequence_parallel: bool = True
    hybrid: bool = False
    partial: bool = False
    shards_all: bool = False
