"""Measurements of one GPU, as `python -m bench.gpu.measure` writes them, and the predictions."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "gpu"
Row = dict[str, Any]


def plan_path(folder: Path, case: str) -> Path:
    """The plan file of a case."""
    return folder / f"{case}.plan.json"


def rows_of(device: str, name: str) -> list[Row]:
    """The rows of a file of measurements: steps, runtime, equal or kernels."""
    path = DATA / device / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def machine_of(device: str) -> Row:
    """The provenance of the measurements of a device."""
    document: Row = json.loads((DATA / device / "machine.json").read_text(encoding="utf-8"))
    return document


def predictions_of(device: str) -> dict[str, dict[str, float]]:
    """The predictions that were made before the measurement, by case."""
    with (DATA / device / "predictions.csv").open(newline="") as file:
        return {
            row.pop("case"): {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        }
