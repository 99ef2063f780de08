"""`python -m bench.gpu.predict`: what the planner predicts of every case, as a table and as plans.

Writes `predictions.csv`, one row a case, beside the measurements. Plans that the runtime carries
out go to the folder of `--plans`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from pathlib import Path

from bench.gpu.cases import CASES
from bench.gpu.measurements import DATA, plan_path
from bench.gpu.predictions import Prediction, plan_of, prediction_of
from bench.timing import say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h100", help="device of a preset")
    parser.add_argument("--plans", type=Path, help="folder of plans for the runtime")
    parser.add_argument("-o", "--output", type=Path, help="default: beside the measurements")
    given = parser.parse_args()
    if given.plans is not None:
        given.plans.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Prediction] = {}
    output = given.output or DATA / given.device / "predictions.csv"
    for case in CASES:
        made = plan_of(case, given.device)
        rows[case.name] = prediction_of(made.plan)
        say(f"{case.name}: {rows[case.name]['step_ns'] / 1e6:.1f} ms")
        if given.plans is not None and case.runner == "runtime":
            made.write(plan_path(given.plans, case.name))
        write_table(output, rows)


def write_plans(folder: Path, device: str) -> None:
    """The plans of all cases that the runtime carries out."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if case.runner == "runtime":
            plan_of(case, device).write(plan_path(folder, case.name))


def write_table(path: Path, rows: dict[str, Prediction]) -> None:
    """Rows by case, in the order of the cases."""
    columns: Iterable[str] = next(iter(rows.values()))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["case", *columns], lineterminator="\n")
        table.writeheader()
        table.writerows({"case": name, **row} for name, row in rows.items())


if __name__ == "__main__":
    main()
