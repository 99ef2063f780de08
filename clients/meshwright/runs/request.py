"""Requests that price the rows of a table as `meshwright estimate` prices stated degrees."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Literal, cast

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.runs.devices import GB, GIB, TERA, KnownDevice, device_of_peak, known_device
from meshwright.runs.models import model_of
from meshwright.runs.strategy import (
    Strategy,
    dtype_of,
    gradient_dtype_of,
    has_flash,
    precision_of,
    stack_of,
    strategy_of,
)
from meshwright.runs.table import NotPredictable, Row, amount, count, needed, text_of
from meshwright.schema import (
    Constraints,
    Degrees,
    Device,
    Graph,
    Level,
    OptimizerParallel,
    Pipeline,
    Recompute,
    Request,
    Setup,
    Topology,
)
from meshwright.schema.graph import DType

ANOTHER_MODEL = 0.2  # chosen: data sheets and drivers differ by a tenth in what a GB is


def request_of(row: Row) -> tuple[Request, str]:
    """The stated plan of a row as a request, and a note on what was filled in.

    Raises NotPredictable where the row says too little, and SetupError or GraphError where what it
    says cannot be.
    """
    known, strategy = _known_device(row), strategy_of(row)
    is_fused = has_flash(row, default=known.has_flash)
    decoder, note = model_of(row, tp=strategy.tp, has_flash=is_fused)
    sequence, dtype = max(1, round(needed(row, "seq_len"))), _dtype(row, known.device)
    request = Request(
        graph=_graph(decoder, strategy.batch, sequence, dtype),
        topology=topology_of(row, known, strategy.devices),
        setup=Setup(
            global_batch=strategy.batch,
            microbatches=strategy.microbatches,
            uneven="pad",
            sequence_order="zigzag" if strategy.cp > 1 else "contiguous",
            precision=precision_of(row),
            gradient_dtype=gradient_dtype_of(row, dtype=dtype, is_fused=is_fused),
            stack=stack_of(row),
            expert_dispatch="node" if decoder.experts else "expert",
        ),
        degrees=Degrees(
            dp=strategy.dp,
            tp=strategy.tp,
            cp=strategy.cp,
            ep=strategy.ep,
            zero=cast(Literal[0, 1, 2, 3], strategy.zero),
            sequence_parallel=strategy.sequence_parallel,
        ),
        constraints=_constraints(strategy),
        pipeline=Pipeline(ranks=strategy.pp, stages_per_rank=strategy.stages_per_rank)
        if strategy.pp > 1
        else Pipeline(ranks=1),
        recompute=Recompute(policy=strategy.recompute),
    )
    return request, note


def _dtype(row: Row, device: Device) -> DType:
    """The dtype of a row; float16 where the device has no fast products of bfloat16."""
    dtype = dtype_of(row)
    slow = device.peak_flops_per_s("bfloat16") < device.peak_flops_per_s("float16")
    return "float16" if slow and dtype == "bfloat16" else dtype


def _constraints(strategy: Strategy) -> Constraints:
    if strategy.zero_size is None:
        return Constraints()
    return Constraints(optimizer_parallel=OptimizerParallel(shard_size=strategy.zero_size))


@lru_cache(maxsize=8)
def _graph(decoder: Decoder, batch: int, seq: int, dtype: str) -> Graph:
    return decoder_graph(decoder, batch=batch, seq=seq, dtype=dtype)


def _known_device(row: Row) -> KnownDevice:
    """The row's device, or one of its peak where the name says nothing."""
    name = row.get("hw") or ""
    known = known_device(name)
    if known is not None:
        return known
    peak = amount(row, "hw_peak_tflops", 0.0)
    if peak <= 0:
        raise NotPredictable(f"device {name!r} is not known, and hw_peak_tflops is not stated")
    return device_of_peak(name, peak * TERA, amount(row, "hbm_gb", 80.0) * GIB)


def topology_of(row: Row, known: KnownDevice, devices: int) -> Topology:
    """The row's devices in its nodes, with the links and the memory that it states."""
    inner = min(devices, count(row, "gpus_per_node", _inner(devices, known.per_node)))
    if devices % inner:
        raise NotPredictable(f"{devices} devices are not whole nodes of {inner}")
    found = known.topology(devices, inner)
    link = re.search(r"([1-9]\d*(?:\.\d+)?) ?gb/s", text_of(row, "intra_link"))
    inside = float(link[1]) * GB if link else math.nan
    port = amount(row, "inter_gbps_per_gpu", math.nan) / 8 * GB
    levels = list(found.levels)
    if not math.isnan(inside) and inner > 1:
        levels[-1] = _with_bandwidth(levels[-1], inside)
    if not math.isnan(port) and devices > inner:
        levels[0] = _with_bandwidth(levels[0], port)
    return found.model_copy(
        update={"levels": tuple(levels), "device": _with_memory(row, found.device)}
    )


def _inner(devices: int, per_node: int) -> int:
    """The devices of a node where the row states none: the most that are whole nodes."""
    return next(size for size in range(min(devices, per_node), 0, -1) if devices % size == 0)


def _with_bandwidth(level: Level, bytes_per_s: float) -> Level:
    link = level.link.model_copy(update={"bytes_per_s": bytes_per_s, "devices_per_port": 1})
    return level.model_copy(update={"link": link})


def _with_memory(row: Row, device: Device) -> Device:
    """The device with the memory of `hbm_gb`, where that is another model of it."""
    stated = amount(row, "hbm_gb", 0.0) * GIB
    if stated <= 0 or abs(math.log(stated / device.memory_bytes)) <= ANOTHER_MODEL:
        return device
    return device.model_copy(update={"memory_bytes": round(stated)})
