"""`python -m bench.published_plans [STEPS.csv] [--every N]`: published steps, priced as plans.

Every row of a table of published runs is priced as `meshwright estimate --table` prices it: the
graph of a decoder of its dimensions, its devices, its degrees, one judge. A row that no plan
describes gets a reason. `--every N` takes every Nth row of each source, at least FEWEST, so that a
large table takes minutes; `--stacks ratio` prices with the profiles of the frameworks' stacks,
`kernels` with what their kernels do, without their ratios, and `none` (the default) without.
Without a file: the 1,934 rows of bench/data to which constants of the default calibration are
fitted (`bench.published_step_fit`), and the 54 of torchtitan and BLOOM, to which none are.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np

from bench.scores import score
from bench.timing import say
from meshwright.runs.prediction import Prediction, predict
from meshwright.runs.strategy import stack_of
from meshwright.runs.table import Row, measured, read
from meshwright.schema import Answer, Request
from meshwright_costmodel.calibrations import with_kernels_of
from meshwright_solver.planning.planner import plan

FITTED = Path(__file__).parent / "data" / "steps.csv.gz"
HELD_OUT = FITTED.with_name("steps_held_out.csv")
UNFITTED = FITTED.with_name("steps_unfitted.csv.gz")
TOO_LARGE = FITTED.with_name("oom.csv")
FEWEST = 60  # chosen: rows of a source, where it has so many
Stacks = Literal["none", "kernels", "ratio"]


def priced(row: Row, stacks: Stacks = "none") -> Prediction:
    """A row as a plan; the reason where it has none."""
    return predict(row, partial(_planned, stacks=stacks))


def _planned(request: Request, *_: object, stacks: Stacks, **__: object) -> Answer:
    stack = request.setup.stack
    if stack is not None and stacks == "kernels":
        # what is whole in a stack's blocks stays; a calibration of the request has no ratio
        return plan(request.model_copy(update={"calibration": with_kernels_of(stack)}))
    if stacks == "none":
        setup = request.setup.model_copy(update={"stack": None})
        request = request.model_copy(update={"setup": setup})
    return plan(request)


def thinned(rows: Iterable[Row], every: int, fewest: int = FEWEST) -> Iterator[Row]:
    """Every Nth row with a measured step of each source, at least `fewest` where it has so many."""
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if measured(row, "step_time_s") > 0:
            by_source[row.get("source_id") or ""].append(row)
    for own in by_source.values():
        yield from own[:: max(1, min(every, len(own) // fewest))]


def say_scores(found: list[Prediction]) -> None:
    """A line a source, and their mean."""
    say("| source | rows priced | error % | median % | anchored % | tau | regret % | memory % |")
    say("|---" * 8 + "|")
    table = []
    for name, own in sorted(_by_source(found).items()):
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


def say_ratios(found: list[Prediction]) -> None:
    """Measured over predicted steps, by stack and source: `meshwright.schema.stack`."""
    stacks: dict[str, list[Prediction]] = defaultdict(list)
    for each in found:
        if np.isfinite(each.step_s):
            stacks[stack_of(each.row) or "none"].append(each)
    say("| stack | source: median of measured over predicted | quantiles 0.1 and 0.9 of all rows |")
    say("|---" * 3 + "|")
    every = []
    for stack, own in sorted(stacks.items()):
        by_source = {name: _ratios(rows) for name, rows in sorted(_by_source(own).items())}
        every += [*by_source.values()]
        medians = ", ".join(f"{name} {np.median(each):.3f}" for name, each in by_source.items())
        low, high = _quantiles([*by_source.values()])
        say(f"| {stack} | {medians} | {low:.3f} to {high:.3f} |")
    low, high = _quantiles(every)
    say(f"| all | | {low:.3f} to {high:.3f} |")


def say_spreads(found: list[Prediction]) -> None:
    """What `meshwright.reports.likelihood` needs: spreads of pairs of strategies, and of memory."""
    deviations = []
    for name, own in sorted(_by_source(found).items()):
        groups: dict[str, list[Prediction]] = defaultdict(list)
        for each in own:
            if each.row.get("rank_group") and np.isfinite(each.step_s):
                groups[each.row["rank_group"]].append(each)
        pairs = [
            float(np.log(a / b))
            for rows in groups.values()
            for a, b in combinations(_ratios(rows).tolist(), 2)
        ]
        if pairs:
            deviations.append(float(np.sqrt(np.mean(np.square(pairs)))))
            say(f"{name}: {len(pairs)} pairs of strategies, spread {deviations[-1]:.3f}")
    if deviations:
        say(f"spread of pairs, mean of sources: {np.mean(deviations):.3f}")
    used = {each.row.get("row_id"): measured(each.row, "mem_gib") * 2.0**30 for each in found}
    ratios = np.array([used[each.row.get("row_id")] / each.memory_bytes for each in found])
    logs = np.log(ratios[np.isfinite(ratios)])
    if len(logs):
        middle = float(np.exp(np.median(logs)))
        say(f"memory, {len(logs)} rows: median {middle:.3f}, spread {np.std(logs):.3f}")


def _quantiles(sources: list[np.ndarray]) -> tuple[float, float]:
    """The quantiles 0.1 and 0.9, every source of equal weight."""
    ratios = np.concatenate(sources)
    weights = np.concatenate([np.full(len(own), 1 / len(own)) for own in sources])
    order = np.argsort(ratios)
    places = np.cumsum(weights[order]) / weights.sum()
    low, high = (float(ratios[order][np.searchsorted(places, at)]) for at in (0.1, 0.9))
    return low, high


def _ratios(found: list[Prediction]) -> np.ndarray:
    return np.array([measured(each.row, "step_time_s") / each.step_s for each in found])


def _by_source(found: Iterable[Prediction]) -> dict[str, list[Prediction]]:
    by_source: dict[str, list[Prediction]] = defaultdict(list)
    for each in found:
        by_source[each.row.get("source_id") or ""].append(each)
    return by_source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", type=Path, default=[FITTED, UNFITTED])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--source", help="one source only")
    parser.add_argument("--stacks", choices=("none", "kernels", "ratio"), default="none")
    parser.add_argument("--rows", action="store_true", help="a line a row too")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    every = [row for file in given.steps for row in read(file)]
    rows = [row for row in every if given.source in (None, row.get("source_id"))]
    rows = list(thinned(rows, given.every))
    started = time.perf_counter()
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        found = list(pool.map(partial(priced, stacks=given.stacks), rows, chunksize=4))
    for each in found if given.rows else ():
        truth = measured(each.row, "step_time_s")
        said = each.reason[:120] or f"{each.step_s:.4g} s, ratio {each.step_s / truth:.2f}"
        say(f"{each.row.get('row_id')}: {truth:.4g} s, {said}")
    say_scores(found)
    say_ratios(found)
    say_spreads(found)
    reasons = [each.reason for each in found if each.reason]
    for reason in dict.fromkeys(reasons):
        say(f"{reasons.count(reason)} rows: {reason[:200]}")
    say(f"{len(found)} rows in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
