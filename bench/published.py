"""`python -m bench.published [STEPS.csv] [-o OUT.csv] [--score]`: published steps, predicted.

For any CSV file with the columns of bench/data/steps.csv.gz (the default): what a step takes, what
memory, whether it fits, by `bench.closed_form`. Unknown columns are ignored, silent ones filled
(`bench.published_rows`); a row that says too little gets a reason and no number. `--score` compares
with the measured times by source: with the constants as they are, with one more constant for each
source (anchored), and with constants fitted without the source (left out), which is what to expect
of a cluster that was never measured. `--fit FILE` writes constants fitted to the rows; `--ablation`
leaves out one term after the other and fits again.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from bench.closed_form.constants import Constants
from bench.closed_form.fit import fit
from bench.closed_form.profile import Profile, published_profile
from bench.closed_form.step import TERMS, steps
from bench.published_rows import Rows, rows_of
from bench.published_table import NotPredictable, Row, measured, read
from bench.scores import Column, Score, anchor, score
from bench.timing import say

GIVEN = Path(__file__).parent / "data" / "steps.csv.gz"
TOO_LARGE = Path(__file__).parent / "data" / "oom.csv"
GIB = 2.0**30
COLUMNS = (
    "row_id", "predicted_step_time_s", "predicted_mem_gib", "fits", "used_profile", "notes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """Rows with a measured time."""

    rows: Rows

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Measured:
        timed = cls(rows_of(row for row in rows if measured(row, "step_time_s") > 0))
        if not timed.rows.rows:
            raise NotPredictable("no row has a step_time_s and can be predicted")
        return timed

    @property
    def names(self) -> list[str]:
        return sorted(set(self.rows.sources.tolist()))

    def scores(self, predicted: Column) -> dict[str, Score]:
        """By source."""
        return {name: self.score_of(name, predicted) for name in self.names}

    def score_of(self, name: str, predicted: Column) -> Score:
        own = self.rows.sources == name
        kept = [row for row, mine in zip(self.rows.rows, own, strict=True) if mine]
        groups = [row.get("rank_group") or "" for row in kept]
        return score(predicted[own], self.rows.measured_s[own], groups)

    def left_out(self, name: str) -> Score:
        """Of a source whose rows no constant has seen."""
        others = self.rows.sources != name
        rows = self.rows
        found = fit(rows.runs.take(others), rows.measured_s[others], rows.sources[others])
        return self.score_of(name, steps(rows.runs, found.constants).total)

    def fitted(self, without: frozenset[str] = frozenset()) -> tuple[Profile, Column]:
        """A profile of all rows, and what it predicts."""
        rows = self.rows
        found = fit(rows.runs, rows.measured_s, rows.sources, without)
        predicted = steps(rows.runs, found.constants, without).total
        errors = {name: own.mape for name, own in self.scores(predicted).items()}
        source = f"{len(rows.rows)} published steps of {', '.join(self.names)}"
        return Profile.of("published", source, found, errors), predicted


def predictions(rows: list[Row], profile: Profile, anchored: bool) -> list[dict[str, str]]:
    """One record a row, in their order."""
    names = [row.get("row_id") or f"row {place + 1}" for place, row in enumerate(rows)]
    records = [{"row_id": name, "notes": ""} for name in names]
    found = rows_of(rows)
    for place, reason in found.reasons.items():
        records[place]["notes"] = reason
    if not found.rows:
        return records
    with np.errstate(all="ignore"):
        seconds = steps(found.runs, profile.constants).total
        fullest, fitting = found.memory_bytes / GIB, found.fits
        notes = list(found.notes)
        if anchored:
            seconds, notes = _anchored(found, seconds, notes)
    said = np.isfinite(seconds) & np.isfinite(fullest) & (seconds > 0)
    for each, place in enumerate(found.places):
        if not said[each]:
            records[place]["notes"] = "its numbers are beyond what a run can have"
            continue
        values = (
            names[place], f"{seconds[each]:.6g}", f"{fullest[each]:.2f}",
            str(bool(fitting[each])).lower(), profile.id, notes[each],
        )  # fmt: skip
        records[place] = dict(zip(COLUMNS, values, strict=True))
    return records


def _anchored(found: Rows, seconds: Column, notes: list[str]) -> tuple[Column, list[str]]:
    """Each source's predictions divided by the median error of its measured rows."""
    seconds = seconds.copy()
    for name in sorted(set(found.sources.tolist())):
        own = found.sources == name
        timed = own & np.isfinite(found.measured_s) & np.isfinite(seconds)
        if timed.any():
            by = anchor(seconds[timed], found.measured_s[timed])
            seconds[own] /= by
            notes = [
                f"{note}; divided by {by:.3f}".removeprefix("; ") if mine else note
                for note, mine in zip(notes, own, strict=True)
            ]
    return seconds, notes


def say_scores(timed: Measured, constants: Constants) -> None:
    """A line a source, and their mean."""
    found = timed.scores(steps(timed.rows.runs, constants).total)
    say("source              rows   MAPE  median  anchored   tau  regret   left out  anchored")
    table = []
    for name, own in found.items():
        alone = timed.left_out(name) if len(found) > 1 else own
        table.append((own.mape, own.anchored, own.tau, own.regret, alone.mape, alone.anchored))
        say(
            f"{name:18} {own.rows:5} {own.mape:6.1f} {own.median:7.1f} {own.anchored:9.1f} "
            f"{own.tau:5.2f} {own.regret:7.1f} {alone.mape:10.1f} {alone.anchored:9.1f}"
        )
    means = [float(np.nanmean(column)) for column in np.array(table).T]
    say(
        f"{'mean':18} {len(timed.rows.rows):5} {means[0]:6.1f} {'':7} {means[1]:9.1f} "
        f"{means[2]:5.2f} {means[3]:7.1f} {means[4]:10.1f} {means[5]:9.1f}"
    )


def say_memory(rows: Rows) -> None:
    """Error of memory by source, and what is said of runs that fitted and that did not."""
    shown = np.array([measured(row, "mem_gib") for row in rows.rows])
    error = 100 * np.abs(rows.memory_bytes / GIB / shown - 1)
    for name in sorted(set(rows.sources[np.isfinite(error)].tolist())):
        own = error[(rows.sources == name) & np.isfinite(error)]
        say(f"memory of {name}: {len(own)} rows, MAPE {own.mean():.1f}")
    say(f"said to fit: {rows.fits.sum()} of {len(rows.rows)} that ran")
    others = rows_of(read(TOO_LARGE))
    say(f"refused: {(~others.fits).sum()} of {len(others.rows)} that did not fit")


def say_ablation(timed: Measured) -> None:
    """What each term is worth: without it, and everything else fitted again."""
    say("| without | MAPE | tau | regret |")
    say("|---|---|---|---|")
    for term in ("", *TERMS):
        _, predicted = timed.fitted(frozenset({term} - {""}))
        found = timed.scores(predicted).values()
        mape, tau, regret = (
            float(np.nanmean([getattr(own, key) for own in found]))
            for key in ("mape", "tau", "regret")
        )
        say(f"| {term or 'nothing'} | {mape:.1f} | {tau:.2f} | {regret:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="?", type=Path, default=GIVEN)
    parser.add_argument("-o", "--output", type=Path, help="where predictions go, as CSV")
    parser.add_argument("--profile", type=Path, help="constants to use instead of the published")
    parser.add_argument("--anchor", action="store_true", help="one constant a source")
    parser.add_argument("--score", action="store_true")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--fit", type=Path, metavar="FILE", help="where a fitted profile goes")
    given = parser.parse_args()
    try:
        run(given)
    except (OSError, ValueError) as error:
        raise SystemExit(f"bench.published: {error}") from None


def run(given: argparse.Namespace) -> None:
    rows = read(given.steps)
    if given.fit:
        profile, _ = Measured.of(rows).fitted()
        given.fit.write_text(profile.to_json(), encoding="utf-8")
    elif given.profile:
        profile = Profile.from_json(given.profile.read_bytes())
    else:
        profile = published_profile()
    if given.score:
        timed = Measured.of(rows)
        say_scores(timed, profile.constants)
        say_memory(timed.rows)
    if given.ablation:
        say_ablation(Measured.of(rows))
    if given.output or not (given.score or given.ablation or given.fit):
        records = predictions(rows, profile, given.anchor)
        if given.output:
            with given.output.open("w", newline="", encoding="utf-8") as file:
                _write(file, records)
        else:
            _write(sys.stdout, records)


def _write(file: TextIO, records: list[dict[str, str]]) -> None:
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)


if __name__ == "__main__":
    main()
