"""`python -m bench.gpu_accuracy`: predicted against measured on one GPU.

Reads the measurements of `bench/data/gpu` and the predictions that were made before them: kernels
of the agent by kind, training steps, and plans that the runtime carried out. `--now` predicts steps
anew with this planner, which takes minutes. To measure another GPU:

    python -m bench.gpu.measure -o bench/data/gpu/DEVICE --device DEVICE
    python -m bench.gpu.predict --device DEVICE
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

from bench.gpu.cases import CASES
from bench.gpu.measurements import DATA, Row, machine_of, predictions_of, rows_of
from bench.timing import say
from meshwright.common.files import read_document
from meshwright.schema.residuals import Residual
from meshwright.schema.samples import Samples
from meshwright_costmodel.calibrations import published_calibration
from meshwright_costmodel.presets import preset
from meshwright_costmodel.residuals import residuals_of

GIB = 2**30
WORK = ("products", "attention", "update", "other")
KERNEL_COLUMNS = ("kernels", "samples", "median", "quartiles", "worst", "of")
STEP_COLUMNS = (
    "case", "measured ms", "predicted ms", "ratio", *WORK, "measured GiB", "predicted GiB", "ratio",
)  # fmt: skip
Predictions = dict[str, dict[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--now", action="store_true", help="predict with this planner")
    given = parser.parse_args()
    machine = machine_of(given.device)
    say(f"{machine['device']}, torch {machine['torch']}, {machine['measured_at']}")
    for line in kernel_table(given.device):
        say(line)
    predictions = _predicted_now(given.device) if given.now else predictions_of(given.device)
    for line in step_table(given.device, predictions):
        say(line)
    for line in summary(given.device, predictions):
        say(line)


def kernel_table(device: str) -> Iterator[str]:
    """Predicted over measured time of the agent's kernels, by kind."""
    yield _line(KERNEL_COLUMNS)
    yield "| --- " * len(KERNEL_COLUMNS) + "|"
    for residual in kernel_residuals(device):
        quartiles = f"{residual.low:.2f} to {residual.high:.2f}"
        yield _line(
            (residual.kind, residual.samples, f"{residual.median:.2f}", quartiles,
             f"{residual.worst:.2f}", residual.worst_of)
        )  # fmt: skip


def kernel_residuals(device: str) -> tuple[Residual, ...]:
    """The residuals of the published calibration for the agent's samples."""
    samples = read_document(DATA / device / "samples.json", Samples)
    of_preset = samples.model_copy(update={"topology": preset(f"{device}-1x1")})
    return residuals_of(published_calibration(), of_preset).residuals


def step_table(device: str, predictions: Predictions) -> Iterator[str]:
    """Steps and peaks; the columns of work are predicted over measured device time."""
    yield _line(STEP_COLUMNS)
    yield "| --- " * len(STEP_COLUMNS) + "|"
    for row, predicted in _pairs(device, predictions):
        works = [_ratio(predicted, row, f"{work}_ns") for work in WORK]
        yield _line(
            (row["case"], f"{row['step_ns'] / 1e6:.1f}", f"{predicted['step_ns'] / 1e6:.1f}",
             _ratio(predicted, row, "step_ns"), *works, f"{row['peak_bytes'] / GIB:.1f}",
             f"{predicted['peak_bytes'] / GIB:.1f}", _ratio(predicted, row, "peak_bytes"))
        )  # fmt: skip


def summary(device: str, predictions: Predictions) -> Iterator[str]:
    """The mean error of steps and of peaks, by how the program ran."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for row, predicted in _pairs(device, predictions):
        errors = tuple(abs(predicted[k] / row[k] - 1) for k in ("step_ns", "peak_bytes"))
        groups.setdefault(row["case"].rsplit("-", 1)[1], []).append((errors[0], errors[1]))
    for how, pairs in groups.items():
        step, peak = (100 * statistics.fmean(errors) for errors in zip(*pairs, strict=True))
        yield f"{how}: {len(pairs)} cases, steps {step:.0f} % off on the mean, peaks {peak:.0f} %"


def _pairs(device: str, predictions: Predictions) -> Iterator[tuple[Row, dict[str, float]]]:
    for row in (*rows_of(device, "steps"), *rows_of(device, "runtime")):
        yield row, predictions[row["case"]]


def _predicted_now(device: str) -> Predictions:
    from bench.gpu.predictions import plan_of, prediction_of

    measured = {row["case"] for name in ("steps", "runtime") for row in rows_of(device, name)}
    return {
        case.name: prediction_of(plan_of(case, device).plan)
        for case in CASES
        if case.name in measured
    }


def _ratio(predicted: dict[str, float], row: Row, name: str) -> str:
    """Predicted over measured; a dash where nothing was measured, or less than a millisecond."""
    measured = row.get(name) or 0
    return f"{predicted[name] / measured:.2f}" if measured > 1e6 else "–"


def _line(cells: tuple[object, ...]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
