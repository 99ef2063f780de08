"""`meshwright sweep`: plans over several topologies, batches, lengths, precisions and targets."""

from __future__ import annotations

import csv
import io
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

import typer

from meshwright.cli.asking import INTERRUPTED, is_topology_file
from meshwright.cli.consoles import notices, results
from meshwright.cli.option_types import (
    CalibrationFile,
    GraphFile,
    Microbatches,
    PipelineRanks,
    Recompute,
    SearchSeconds,
    ServerOption,
    SetupFile,
    StackOption,
    Workers,
)
from meshwright.cli.output import save, say_written, writable
from meshwright.cli.progress import ProgressLine
from meshwright.cli.wishes import budget_of, one_of, pipeline_of, recompute_of, setup_of
from meshwright.client import Client
from meshwright.common.files import read_document, write_whole
from meshwright.common.stop_signal import StopSignal
from meshwright.planfile import PlanFile
from meshwright.plugins.planner import planner_build
from meshwright.render.sweep import render_sweep, show_count
from meshwright.schema import Calibration, Graph, InvalidInput, Plan, RequestError, Topology
from meshwright.schema.setup import Precision
from meshwright.schema.stack import Stack
from meshwright.schema.sweep import Sweep, SweepPoint, SweepResult, SweepRow
from meshwright.schema.target import TARGETS, Target
from meshwright.sweeps import points_of, request_of, run_sweep
from meshwright.sweeps.local_run import resolved, result_of
from meshwright.sweeps.name_patterns import split_outside_braces

NO_TARGET: Literal["none"] = "none"
T = TypeVar("T")


def sweep(
    graph: GraphFile,
    topology: Annotated[
        str,
        typer.Option(
            help="Presets and topology files, separated by commas. Braces stand for several: "
            "'h100-{2,4,8}x8,b200-{1,2}x8'."
        ),
    ],
    batch: Annotated[
        str | None, typer.Option(help="Global batch sizes, separated by commas.")
    ] = None,
    seq: Annotated[str | None, typer.Option(help="Sequence lengths, separated by commas.")] = None,
    precision: Annotated[
        str | None,
        typer.Option(help=f"Precisions, separated by commas: {', '.join(get_args(Precision))}."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help=f"Frameworks, separated by commas: {', '.join(TARGETS)}, or {NO_TARGET} for plans "
            "without a target."
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            help="Price of a device for an hour, in any currency, such as h100=2.5. Repeatable."
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            help="Tokens of the training run (samples without sequences), such as 15e12 or 15T."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Result file: .json, which a later run of the same sweep goes on with, or .csv.",
            callback=writable,
        ),
    ] = None,
    plans: Annotated[Path | None, typer.Option(help="Folder for the plan of each point.")] = None,
    server: ServerOption = None,
    microbatches: Microbatches = None,
    pipeline: PipelineRanks = None,
    recompute: Recompute = None,
    stack: StackOption = None,
    setup: SetupFile = None,
    calibration: CalibrationFile = None,
    budget: SearchSeconds = None,
    workers: Workers = None,
) -> None:
    """Plan a graph on several clusters, and compare the plans.

    The points are all combinations of the options' values, each planned as by `meshwright plan`.
    Ctrl-C ends the sweep and shows the finished points.
    """
    document = read_document(graph, Graph)
    wanted = Sweep(
        name=document.name,
        topologies=tuple(_topologies(topology)),
        batches=_sizes("--batch", batch),
        sequences=_sizes("--seq", seq),
        precisions=_choices("--precision", precision, get_args(Precision)),
        targets=_targets(target),
        prices=_prices(price or ()),
        tokens=None if tokens is None else _count("--tokens", tokens),
        setup=setup_of(
            setup,
            seq=None,
            dataset=None,
            microbatches=microbatches,
            stack=stack and one_of("--stack", stack, get_args(Stack)),
        ),
        pipeline=pipeline_of(pipeline, None, None, ()),
        recompute=recompute_of(recompute, None),
        budget=budget_of(budget, None, None),
    )
    measured = None if calibration is None else read_document(calibration, Calibration)
    if plans is not None:
        _make_folder(plans)
    if server is not None:
        if workers is not None or plans is not None:
            raise typer.BadParameter(
                "is for sweeps in this process; the plans of a service are stored there",
                param_hint="--plans" if workers is None else "--workers",
            )
        with Client(server) as client, _PointsLine(len(points_of(wanted))) as line:
            begun = client.begin_sweep(document, wanted, calibration=measured)
            # the service goes on with it if this command is ended
            _notice(f"sweep {begun['id']}")
            result = client.follow_sweep(begun["id"], on_rows=line.rows)
        is_stopped = any(row.state == "cancelled" for row in result.rows)
    else:
        with StopSignal(signal.SIGINT) as stop, _PointsLine(len(points_of(wanted)), stop) as line:
            result = _run_here(wanted, document, measured, workers, output, plans, stop, line)
        is_stopped = stop.heeded
    if output is not None:
        _write(output, result)
    results().print(render_sweep(result))
    if output is not None:
        say_written(output)
    if is_stopped:
        _notice("meshwright: the sweep was ended early")
        raise typer.Exit(INTERRUPTED)
    if not any(row.figures is not None and row.figures.fits for row in result.rows):
        raise typer.Exit(1)


def _notice(text: str) -> None:
    notices().print(text, markup=False, soft_wrap=True)


class _PointsLine(ProgressLine):
    """A progress line that counts points."""

    def __init__(self, total: int, stop: StopSignal | None = None) -> None:
        super().__init__(stop)
        self._total = total
        self._best: tuple[float, str] | None = None

    def row(self, done: int, row: SweepRow) -> None:
        """Show one more answer. done: the number of answers."""
        rate = row.figures.units_per_s if row.figures is not None and row.figures.fits else None
        if rate and (self._best is None or rate > self._best[0]):
            self._best = rate, row.point.topology
        best = f"fastest {self._best[1]}, {show_count(self._best[0])}/s" if self._best else ""
        self.show("planning points", done, self._total, found=best)

    def rows(self, rows: Sequence[SweepRow]) -> None:
        """Show the answers of a service."""
        final = [row for row in rows if not row.is_open]
        for row in final:
            self.row(len(final), row)
        if not final:
            self.show("planning points", 0, self._total)


def _run_here(
    sweep: Sweep,
    graph: Graph,
    calibration: Calibration | None,
    workers: int | None,
    output: Path | None,
    plans: Path | None,
    stop: StopSignal,
    line: _PointsLine,
) -> SweepResult:
    known = _known(output, sweep, graph)
    if known:
        _notice(f"{len(known)} points are in {output} already")
    rows = dict(known)
    points = points_of(sweep)
    topologies = resolved(sweep)

    def on_row(place: int, row: SweepRow) -> None:
        rows[points[place]] = row
        line.row(len(rows), row)
        if output is not None and _is_json(output):
            save(output, _result(sweep, graph, rows))

    def on_plan(point: SweepPoint, plan: Plan) -> None:
        assert plans is not None
        request = request_of(sweep, point, graph, topologies, calibration)
        file = PlanFile(
            plan=plan,
            graph=graph,
            topology=request.topology,
            setup=request.setup,
            calibration=calibration,
        )
        save(plans / f"{_file_name(point)}.json.gz", file, name=plan.id)

    line.show("planning points", len(rows), len(points))
    return run_sweep(
        sweep,
        graph,
        calibration=calibration,
        workers=workers,
        known=known,
        stop=stop,
        on_row=on_row,
        on_plan=on_plan if plans is not None else None,
    )


def _known(output: Path | None, sweep: Sweep, graph: Graph) -> dict[SweepPoint, SweepRow]:
    """The final rows of the same sweep in an earlier output file."""
    if output is None or not _is_json(output) or not output.is_file():
        return {}
    try:
        earlier = read_document(output, SweepResult)
    except InvalidInput:
        return {}
    same = (sweep, graph.id, planner_build())
    if (earlier.sweep, earlier.graph, earlier.planner_build) != same:
        return {}
    final = ("planned", "infeasible", "refused")
    return {row.point: row for row in earlier.rows if row.state in final}


def _result(sweep: Sweep, graph: Graph, rows: Mapping[SweepPoint, SweepRow]) -> SweepResult:
    return result_of(sweep, graph, (rows.get(point) for point in points_of(sweep)))


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").removesuffix(".zst").endswith(".json")


def _write(path: Path, result: SweepResult) -> None:
    if path.suffix == ".csv":
        write_whole(path, csv_text(result))
    else:
        save(path, result)


COLUMNS = (
    "topology", "batch", "sequence", "precision", "target", "state", "devices", "step_ms",
    "samples_per_s", "tokens_per_s", "utilization", "memory_bytes", "capacity_bytes", "degrees",
    "microbatches", "recompute", "price_per_hour", "price_per_million", "run_days", "run_price",
    "on_front", "reason",
)  # fmt: skip


def csv_text(result: SweepResult) -> str:
    """The rows as CSV, a line for each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for row in result.rows:
        figures = row.figures
        fields = row.point.model_dump() | row.model_dump(exclude={"point", "figures"})
        if figures is not None:
            fields |= figures.model_dump(exclude={"batch", "sequence"})
            fields["batch"], fields["sequence"] = figures.batch, figures.sequence
            fields["step_ms"] = figures.step_ns / 1e6
        writer.writerow(fields)
    return text.getvalue()


def _file_name(point: SweepPoint) -> str:
    """A file name of a point, such as `h100-8x8.batch-64`."""
    parts = [Path(point.topology).name]
    for field in ("batch", "sequence", "precision", "target"):
        value = getattr(point, field)
        if value is not None:
            parts.append(f"{field}-{value}")
    return re.sub(r"[^\w.+-]", "-", ".".join(parts))


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise InvalidInput(f"{path} cannot be made: {failure.strerror or failure}") from None


def _topologies(text: str) -> Iterator[str | Topology]:
    parts = split_outside_braces(text)
    if not parts:
        raise RequestError("--topology: no topology is named. Use presets such as h100-{2,4}x8")
    for part in parts:
        yield read_document(Path(part), Topology) if is_topology_file(part) else part


def _sizes(option: str, text: str | None) -> tuple[int, ...]:
    return tuple(_count(option, part) for part in split_outside_braces(text or ""))


_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def _count(option: str, text: str) -> int:
    """A whole number such as 64, 2e12 or 15T."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)([kMBT]?)", text)
    value = Decimal(match.group(1)) * _FACTORS[match.group(2)] if match else Decimal(0)
    if value < 1 or value != int(value):
        raise RequestError(
            f"{option}: {text[:80]!r} is not a whole number of 1 or more, such as 64, 2e12 or 15T"
        )
    return int(value)


def _choices(option: str, text: str | None, known: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(one_of(option, part, known) for part in split_outside_braces(text or ""))


def _targets(text: str | None) -> tuple[Target | None, ...]:
    named = _choices("--target", text, (*TARGETS, NO_TARGET))
    return tuple(None if name == NO_TARGET else name for name in named)


def _prices(texts: Sequence[str]) -> dict[str, float]:
    prices: dict[str, float] = {}
    for text in texts:
        name, equals, price = text.rpartition("=")
        try:
            prices[name.strip()] = float(price)
        except ValueError:
            equals = ""
        if not (equals and name.strip()):
            raise RequestError(f"--price: {text[:80]!r} is not like h100=2.5")
    return prices
