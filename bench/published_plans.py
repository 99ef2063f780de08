"""`python -m bench.published_plans [STEPS.csv] [--every N]`: published steps, priced by plans.

Every row of a table of published runs is priced as `meshwright estimate` prices it: the graph of a
decoder of its dimensions (`meshwright.capture.decoder`), the topology of its devices, its degrees,
one judge. Nothing of the table is fitted here. A row that no plan describes gets a reason. `--every
N` takes every Nth row of each source, at least FEWEST, so that a large table takes minutes. Without
a file: the 1,934 rows of bench/data to which constants of the default calibration were fitted by
another model (`bench.closed_form`), and the 54 to which none were.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np

from bench.closed_form.accelerators import accelerator
from bench.closed_form.runs import FULL, NONE, PRODUCTS, SELECTIVE, Runs
from bench.published import GIVEN as FITTED
from bench.published_rows import rows_of
from bench.published_table import Row, measured, read, text_of
from bench.scores import score
from bench.timing import say
from meshwright.capture.decoder import Decoder, LatentAttention, decoder_graph
from meshwright.schema import (
    Degrees,
    Device,
    Graph,
    Level,
    Link,
    MeshwrightError,
    Pipeline,
    Recompute,
    Request,
    Setup,
    Topology,
)
from meshwright.schema.recompute import RecomputePolicy
from meshwright.schema.setup import Precision
from meshwright_costmodel.presets import preset, presets
from meshwright_solver.planning.planner import plan

UNFITTED = FITTED.with_name("steps_unfitted.csv.gz")
FEWEST = 60  # chosen: rows of a source, where it has so many
DROPOUT = 0.1  # published: of GPT-2 and GPT-3 style runs with attention written out (Megatron-LM)
# the presets of devices that `bench.closed_form.accelerators` knows by names of its own
_PRESETS = {
    "A800": "a800", "A800 40GB": "a100-40g", "H800": "h800", "H20": "h20", "B300": "b300",
    "GB200": "gb200", "GB300": "gb300", "MI325X": "mi325x", "MI355X": "mi355x",
}  # fmt: skip
_RECOMPUTE: dict[float, RecomputePolicy] = {
    NONE: "none",
    SELECTIVE: "selective",
    PRODUCTS: "cheap",
    FULL: "full",
}
_ZERO: tuple[Literal[0, 1, 2, 3], ...] = (0, 1, 2, 3)
_RECIPES: tuple[tuple[str, Precision], ...] = (("mx", "mxfp8"), ("block", "fp8_blockwise"))
# published: DeepSeek-V3 (arXiv:2412.19437), section 4.2
_LATENT = LatentAttention(1536, 512, 128, 64, 128)


class NotPriced(ValueError):
    """A row that no plan describes; the message says why."""


@dataclass(frozen=True, slots=True)
class Priced:
    """The prediction of a row, or the reason why there is none. memory_bytes: without the
    reserve."""

    row: Row
    step_s: float = float("nan")
    memory_bytes: float = float("nan")
    reason: str = ""
    seconds: float = 0.0


def priced(row: Row) -> Priced:
    """A row as a plan; the reason where it has none."""
    started = time.perf_counter()
    try:
        request = request_of(row)
        answer = plan(request)
    except (NotPriced, MeshwrightError) as error:
        return Priced(row, reason=str(error), seconds=time.perf_counter() - started)
    spent = time.perf_counter() - started
    if answer.plan is None:
        assert answer.infeasible is not None
        return Priced(row, reason=answer.infeasible.detail, seconds=spent)
    cost = answer.plan.cost
    held = float(cost.memory_bytes.total - cost.memory_bytes.reserved)
    return Priced(row, cost.step_ns / 1e9, held, seconds=spent)


def request_of(row: Row) -> Request:
    """The stated plan of a row. Raises NotPriced where the row says too little."""
    found = rows_of([row])
    if found.reasons:
        raise NotPriced(next(iter(found.reasons.values())))
    run = found.runs
    if float(run.state_layers[0]):
        raise NotPriced("hybrids of state spaces and attention have no graph here")
    devices, batch = round(float(row["gpus"])), round(float(run.batch[0]))
    tp, pp, cp, dp = (round(float(each[0])) for each in (run.tp, run.pp, run.cp, run.dp))
    if tp * pp * cp * dp != devices:
        raise NotPriced(f"dp {dp} · tp {tp} · pp {pp} · cp {cp} are not {devices} devices")
    count = round(float(run.microbatches[0]))
    if batch % count:
        raise NotPriced(f"a batch of {batch} is not {count} equal microbatches")
    precision = text_of(row, "precision")
    recipe: Precision = "graph"
    if float(run.eight_bit[0]):
        recipe = next((own for word, own in _RECIPES if word in precision), "fp8_tensorwise")
    return Request(
        graph=_graph(_decoder(run), batch, round(float(run.sequence[0])), _dtype(run, precision)),
        topology=topology_of(row, run, devices),
        setup=Setup(
            global_batch=batch,
            microbatches=count,
            uneven="pad",
            sequence_order="zigzag" if cp > 1 else "contiguous",
            precision=recipe,
        ),
        degrees=Degrees(
            dp=dp,
            tp=tp,
            cp=cp,
            ep=round(float(run.ep[0])),
            zero=_ZERO[round(float(run.zero[0]))],
            sequence_parallel=bool(run.sequence_parallel[0]) and tp > 1,
        ),
        pipeline=Pipeline(ranks=pp, stages_per_rank=round(float(run.stages_per_rank[0])))
        if pp > 1
        else Pipeline(ranks=1),
        recompute=Recompute(policy=_RECOMPUTE[float(run.recompute[0])]),
    )


def _dtype(run: Runs, precision: str) -> str:
    if float(run.number_bytes[0]) == 4:
        return "float32"
    return "float16" if "fp16" in precision or "float16" in precision else "bfloat16"


def _decoder(run: Runs) -> Decoder:
    width = float(run.head_dim[0])
    hidden, heads, kv_heads = (
        round(float(each[0])) for each in (run.hidden, run.heads, run.kv_heads)
    )
    qkv = (heads + 2 * kv_heads) * width
    is_latent = abs(float(run.qkv_width[0]) / qkv - 1) > 0.01
    layers, dense = round(float(run.layers[0])), round(float(run.dense_layers[0]))
    experts = round(float(run.experts[0]))
    return Decoder(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads if is_latent else kv_heads,
        head_dim=round(width),
        ffn=round(float(run.ffn[0])),
        gated=float(run.ups[0]) > 1 or experts > 0,
        vocabulary=round(float(run.vocabulary[0])),
        experts=experts,
        top_k=round(float(run.top_k[0])),
        expert_ffn=round(float(run.expert_ffn[0])),
        shared_ffn=round(float(run.shared_ffn[0])),
        dense_layers=dense if experts else 0,
        latent=_LATENT if is_latent else None,
        unfused=not float(run.flash[0]),
        dropout=0.0 if float(run.flash[0]) else DROPOUT,
    )


@lru_cache(maxsize=8)
def _graph(decoder: Decoder, batch: int, seq: int, dtype: str) -> Graph:
    return decoder_graph(decoder, batch=batch, seq=seq, dtype=dtype)


def topology_of(row: Row, run: Runs, devices: int) -> Topology:
    """The row's devices in its nodes; a preset's device has its name, and so its curves."""
    known = accelerator(row.get("hw") or "")
    named = _device(known.name if known is not None else row.get("hw") or "unknown")
    device = named or Device(
        name=known.name if known is not None else row.get("hw") or "unknown",
        memory_bytes=round(float(run.memory_bytes[0])),
        memory_bytes_per_s=float(run.memory_bytes_per_s[0]),
        flops_per_s=_rates(run),
    )
    device = device.model_copy(update={"memory_bytes": round(float(run.memory_bytes[0]))})
    inner = min(devices, round(float(run.per_node[0])))
    if devices % inner:
        raise NotPriced(f"{devices} devices are not whole nodes of {inner}")
    levels = [
        Level(
            name="node",
            size=devices // inner,
            link=Link(
                kind="infiniband",
                bytes_per_s=float(run.between_bytes_per_s[0]),
                latency_ns=14_000,
            ),
        ),
        Level(
            name="gpu",
            size=inner,
            link=Link(
                kind="nvlink", bytes_per_s=float(run.inside_bytes_per_s[0]), latency_ns=4_000
            ),
        ),
    ]
    kept = tuple(level for level in levels if level.size > 1) or tuple(levels[-1:])
    return Topology(name=row.get("hw") or "", device=device, levels=kept)


def _rates(run: Runs) -> dict[str, float]:
    peak, plain = float(run.peak_flops_per_s[0]), float(run.attention_flops_per_s[0])
    rates = {"float32": plain / 2, "float16": plain, "bfloat16": plain}
    return rates | ({"float8_e4m3": peak} if float(run.eight_bit[0]) else {})


@lru_cache(maxsize=64)
def _device(name: str) -> Device | None:
    if name in _PRESETS:
        return preset(f"{_PRESETS[name]}-1x8").device
    sheets = (preset(f"{each}-1x8").device for each in presets())
    return next((sheet for sheet in sheets if sheet.name == name), None)


# --- scores --------------------------------------------------------------------------------------


def thinned(rows: Iterable[Row], every: int) -> Iterator[Row]:
    """Every Nth row with a measured step of each source, at least FEWEST where it has so many."""
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if measured(row, "step_time_s") > 0:
            by_source[row.get("source_id") or ""].append(row)
    for own in by_source.values():
        yield from own[:: max(1, min(every, len(own) // FEWEST))]


def say_scores(found: list[Priced]) -> None:
    """A line a source, and their mean."""
    say("| source | rows priced | error % | median % | anchored % | tau | regret % | memory % |")
    say("|---" * 8 + "|")
    by_source: dict[str, list[Priced]] = defaultdict(list)
    for each in found:
        by_source[each.row.get("source_id") or ""].append(each)
    table = []
    for name, own in sorted(by_source.items()):
        said = [each for each in own if np.isfinite(each.step_s)]
        if not said:
            say(f"| {name} | 0 of {len(own)} | | | | | | |")
            continue
        predicted = np.array([each.step_s for each in said])
        truth = np.array([measured(each.row, "step_time_s") for each in said])
        result = score(predicted, truth, [each.row.get("rank_group") or "" for each in said])
        used = np.array([measured(each.row, "mem_gib") * 2.0**30 for each in said])
        memory = 100 * np.abs(np.array([each.memory_bytes for each in said]) / used - 1)
        table.append((result.mape, result.anchored, result.tau, result.regret))
        say(
            f"| {name} | {len(said)} of {len(own)} | {result.mape:.1f} | {result.median:.1f} | "
            f"{result.anchored:.1f} | {result.tau:.2f} | {result.regret:.1f} | "
            f"{np.nanmean(memory) if np.isfinite(memory).any() else float('nan'):.0f} |"
        )
    means = [float(np.nanmean(column)) for column in np.array(table).T]
    count = sum(bool(np.isfinite(each.step_s)) for each in found)
    say(
        f"| mean | {count} of {len(found)} | {means[0]:.1f} | | {means[1]:.1f} | {means[2]:.2f} | "
        f"{means[3]:.1f} | |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", type=Path, default=[FITTED, UNFITTED])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--source", help="one source only")
    parser.add_argument("--rows", action="store_true", help="a line a row too")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    every = [row for file in given.steps for row in read(file)]
    rows = [row for row in every if given.source in (None, row.get("source_id"))]
    rows = list(thinned(rows, given.every))
    started = time.perf_counter()
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        found = list(pool.map(priced, rows, chunksize=4))
    for each in found if given.rows else ():
        truth = measured(each.row, "step_time_s")
        said = each.reason[:120] or f"{each.step_s:.4g} s, ratio {each.step_s / truth:.2f}"
        say(f"{each.row.get('row_id')}: {truth:.4g} s, {said} ({each.seconds:.1f} s)")
    say_scores(found)
    reasons = [each.reason for each in found if each.reason]
    for reason in dict.fromkeys(reasons):
        say(f"{reasons.count(reason)} rows: {reason[:200]}")
    spent = time.perf_counter() - started
    say(f"{len(found)} rows in {spent:.0f} s")


if __name__ == "__main__":
    main()
