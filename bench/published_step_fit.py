"""`python -m bench.published_step_fit [--every N]`: constants of the calibration, from whole steps.

Published runs are priced as plans (`bench.published_plans`) by a calibration whose curves are
fitted to kernels and collectives alone (`bench.published_calibration`), once as it is and once for
each constant with the constant changed. A step is close to linear in the inverse of a share of
peak, and in the other constants; so the fit takes the logarithms of all steps as known from these,
and finds the constants of least error by `meshwright_costmodel.least_squares`: every source weighs
the same, and every constant is held to its prior. The result, `bench/data/step_constants.json`,
has a factor on the prior for each constant; `python -m bench.published_calibration` then writes
the calibration.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.published_calibration import curves_of_kernels, family_of
from bench.published_plans import FITTED, thinned
from bench.scores import score
from bench.timing import say
from meshwright.runs import request_of
from meshwright.runs.table import NotPredictable, Row, measured, read
from meshwright.schema import Calibration, Device, MeshwrightError, Request
from meshwright.schema.curves import Constant, DeviceCurves
from meshwright_costmodel.calibrations import (
    EXPOSED,
    datasheet_calibration,
    with_kernels,
)
from meshwright_costmodel.curve_constants import CurveConstants
from meshwright_costmodel.curves import rates_of
from meshwright_costmodel.least_squares import fit_logs
from meshwright_solver.planning.planner import plan

OUTPUT = Path(__file__).parent / "data" / "step_constants.json"
Column = NDArray[np.float64]
CHANGE = 1.1  # chosen: of a constant, for its slope
# chosen, as for the runs of one framework: what its releases differ by; and what a source weighs
NOISE, MEASUREMENTS_A_SOURCE = 0.06, 9.0
# constant -> (its prior's spread, whether a larger one makes steps shorter)
SPREADS: Mapping[str, tuple[float, bool]] = {
    # chosen: kernels alone on a device, at clocks that long runs do not keep
    "product.sustained": (0.15, True),
    "product.sustained_eight_bit": (0.15, True),
    "attention.share": (0.2, True),
    "attention.backward": (0.2, True),
    "attention.half_head": (0.3, False),
    "attention.half_rows": (0.3, False),
    "product.group_launches": (1.0, False),
    "product.group_launches_eight_bit": (1.0, False),
    "memory": (0.15, True),
}
BY_FAMILY = ("product.sustained", "product.sustained_eight_bit", "attention.share")
PROGRESS = 20  # chosen: rows between lines of progress
FAMILIES = ("ampere", "hopper", "blackwell")


@dataclass(frozen=True, slots=True)
class Stepped:
    """The steps of a row in seconds: by the prior, and by constant with the constant changed."""

    row: Row
    family: str
    prior_s: float
    changed_s: Mapping[str, float]


@cache
def prior() -> Calibration:
    """Curves of kernels and collectives, without any whole step."""
    update = {"curves": curves_of_kernels(), "exposed": EXPOSED}
    return datasheet_calibration().model_copy(update=update)


def changed(curves: DeviceCurves, name: str, factor: float) -> DeviceCurves:
    """The curves with one constant times a factor."""

    def times(own: str, constant: Constant) -> Constant:
        return constant.like(value=constant.value * factor) if own == name else constant

    return CurveConstants.of(curves).changed(times)


def stepped(row: Row) -> Stepped | None:
    """The steps of a row, or None where no plan describes it."""
    try:
        request, _ = request_of(row)
        base = _step_s(request, lambda curves: curves)
        steps = {
            name: _step_s(request, partial(changed, name=name, factor=CHANGE))
            for name in SPREADS
            if _is_of(name, request)
        }
    except (NotPredictable, MeshwrightError):
        return None
    return Stepped(row, _family_of_device(request.topology.device), base, steps)


def _is_of(name: str, request: Request) -> bool:
    """Whether a constant can change the step of a request."""
    has_experts = request.setup.expert_dispatch == "node"
    is_eight_bit = request.setup.precision != "graph"
    if name == "product.sustained_eight_bit":
        return is_eight_bit
    if name == "product.group_launches":
        return has_experts and not is_eight_bit
    return name != "product.group_launches_eight_bit" or (has_experts and is_eight_bit)


def _step_s(request: Request, change: Callable[[DeviceCurves], DeviceCurves]) -> float:
    curves = tuple(change(own) for own in prior().curves)
    calibration = prior().model_copy(update={"curves": curves})
    stack = request.setup.stack
    if stack is not None:
        calibration = with_kernels(calibration, stack)
    answer = plan(request.model_copy(update={"calibration": calibration}))
    if answer.plan is None:
        raise NotPredictable("no plan")
    return answer.plan.cost.step_ns / 1e9


def names_of(family: str) -> Iterator[tuple[str, str]]:
    """(constant of a curve, name of the fitted factor) for a family of devices."""
    for name in SPREADS:
        yield name, f"{name}.{family}" if name in BY_FAMILY else name


def fitted(rows: Sequence[Stepped]) -> tuple[tuple[str, ...], Column, Column]:
    """(names, factors on the priors, standard deviations of their logarithms)."""
    constant_of = {name: own for family in FAMILIES for own, name in names_of(family)}
    names = tuple(constant_of)
    widths = np.array([SPREADS[own][0] for own in constant_of.values()])
    sources = np.array([own.row.get("source_id") or "" for own in rows])
    _, which, counts = np.unique(sources, return_inverse=True, return_counts=True)
    noise = NOISE / np.sqrt(MEASUREMENTS_A_SOURCE / counts[which])
    truth = np.log([measured(own.row, "step_time_s") for own in rows])
    logs, spreads = fit_logs(
        lambda logs: np.log(predicted(rows, names, logs)),
        truth, noise, np.zeros(len(names)), widths,
    )  # fmt: skip
    return names, np.exp(logs), np.minimum(spreads, widths)


def predicted(rows: Sequence[Stepped], names: Sequence[str], logs: Column) -> Column:
    """Steps in seconds with the constants' logarithms moved by `logs`."""
    moved = dict(zip(names, logs.tolist(), strict=True))
    steps = []
    for own in rows:
        step_s = own.prior_s
        for constant, name in names_of(own.family):
            if constant in own.changed_s:
                step_s += (own.changed_s[constant] - own.prior_s) * _scale(constant, moved[name])
        steps.append(step_s)
    return np.maximum(np.array(steps), 1e-9)


def _scale(constant: str, log: float) -> float:
    """How many times as much as CHANGE did a factor of exp(log) moves a step."""
    sign = -1 if SPREADS[constant][1] else 1
    return float(np.expm1(sign * log) / np.expm1(sign * np.log(CHANGE)))


def _family_of_device(device: Device) -> str:
    curves = rates_of(prior(), device).curves
    assert curves is not None
    return family_of(curves.device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=10**6)
    parser.add_argument("--fewest", type=int, default=20, help="rows of a source")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    started = time.perf_counter()
    rows = list(thinned(read(FITTED), given.every, given.fewest))
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        found = []
        for place, own in enumerate(pool.map(stepped, rows), start=1):
            if own is not None:
                found.append(own)
            if place % PROGRESS == 0:
                say(f"{place} of {len(rows)} rows, {time.perf_counter() - started:.0f} s")
    names, factors, spreads = fitted(found)
    document = {
        "source": f"{len(found)} published steps (python -m bench.published_step_fit)",
        "factors": {
            name: {"value": float(f"{factor:.4g}"), "spread": float(f"{spread:.3g}")}
            for name, factor, spread in zip(names, factors, spreads, strict=True)
        },
    }
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    _say(found, names, factors, spreads)
    say(f"{len(found)} of {len(rows)} rows in {time.perf_counter() - started:.0f} s")


def _say(found: Sequence[Stepped], names: Sequence[str], factors: Column, spreads: Column) -> None:
    for name, factor, spread in zip(names, factors, spreads, strict=True):
        say(f"{name:28} times {factor:.3f}, spread {spread:.3f}")
    sources = [own.row.get("source_id") or "" for own in found]
    say("| source | rows | by kernels % | fitted % | left out % |")
    say("|---" * 5 + "|")
    means = []
    for source in dict.fromkeys(sources):
        own = [each for each, its in zip(found, sources, strict=True) if its == source]
        others = [each for each, its in zip(found, sources, strict=True) if its != source]
        truth = np.array([measured(each.row, "step_time_s") for each in own])
        errors = [
            score(predicted(own, names, logs), truth, [""] * len(own)).mape
            for logs in (np.zeros(len(names)), np.log(factors), np.log(fitted(others)[1]))
        ]
        means.append(errors)
        say(f"| {source} | {len(own)} | " + " | ".join(f"{error:.1f}" for error in errors) + " |")
    say("| mean | | " + " | ".join(f"{error:.1f}" for error in np.mean(means, axis=0)) + " |")


if __name__ == "__main__":
    main()
