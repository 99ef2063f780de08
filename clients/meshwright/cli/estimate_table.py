"""`meshwright estimate --table`: the stated strategies of a whole table, a row at a time."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import typer

from meshwright.cli.asking import INTERRUPTED
from meshwright.cli.consoles import notices
from meshwright.cli.progress import ProgressLine
from meshwright.common.process_pool import processes
from meshwright.plugins.planner import find_planner, planner_modules
from meshwright.runs.devices import GIB
from meshwright.runs.prediction import Prediction, predict
from meshwright.runs.table import Row, read
from meshwright.schema import InvalidInput

COLUMNS = (
    "row_id", "predicted_step_time_s", "low_s", "high_s", "predicted_mem_gib", "fits", "notes",
)  # fmt: skip


def estimate_table(path: Path, output: Path | None, workers: int) -> None:
    """Write a CSV record for each row of a table, in its order, each as soon as it is known."""
    rows = read(path)
    if not rows:
        raise InvalidInput(f"{path} has no rows. It needs a line of column names and a line a run")
    find_planner()
    priced = reasons = 0
    try:
        with (
            _opened(output) as stream,
            ProgressLine() as line,
            processes(min(workers, len(rows)), planner_modules()) as executor,
        ):
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for place, found in enumerate(_predictions(rows, executor)):
                writer.writerow(_record(found, place))
                stream.flush()
                priced, reasons = priced + (not found.reason), reasons + bool(found.reason)
                line.show("pricing rows", place + 1, len(rows), found=f"{reasons} without a number")
    except KeyboardInterrupt:
        _say(priced, reasons, len(rows), output)
        raise typer.Exit(INTERRUPTED) from None
    _say(priced, reasons, len(rows), output)


def _predictions(rows: list[Row], executor: Executor | None) -> Iterator[Prediction]:
    if executor is None:
        yield from map(predict, rows)
        return
    futures = [executor.submit(predict, row) for row in rows]
    for future in futures:
        yield future.result()


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", newline="", encoding="utf-8") as stream:
            yield stream
    except OSError as failure:
        raise InvalidInput(f"{output} cannot be written: {failure.strerror or failure}") from None


def _record(found: Prediction, place: int) -> dict[str, str]:
    name = (found.row.get("row_id") or "").strip() or f"row {place + 1}"
    if found.reason:
        return {"row_id": name, "notes": found.reason}
    return {
        "row_id": name,
        "predicted_step_time_s": _digits(found.step_s),
        "low_s": _digits(found.low_s),
        "high_s": _digits(found.high_s),
        "predicted_mem_gib": f"{found.memory_bytes / GIB:.2f}",
        "fits": str(found.fits).lower(),
        "notes": found.note,
    }


def _digits(seconds: float) -> str:
    return f"{seconds:.6g}"


def _say(priced: int, reasons: int, count: int, output: Path | None) -> None:
    where = "" if output is None else f" in {output}"
    rest = count - priced - reasons
    said = f"{priced} of {count} rows priced{where}"
    said += f", {reasons} with a reason in their notes" if reasons else ""
    notices().print(said + (f", {rest} not reached" if rest else ""), markup=False, soft_wrap=True)
