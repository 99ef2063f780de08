"""`meshwright solve`: search a cost graph that another compiler wrote."""

from __future__ import annotations

import math
import signal
import time
from pathlib import Path
from typing import Annotated, get_args

import typer

from meshwright.cli.asking import INTERRUPTED
from meshwright.cli.consoles import notices, results
from meshwright.cli.output import save, say_written, writable
from meshwright.cli.progress import ProgressLine
from meshwright.cli.stored import SERVER
from meshwright.cli.wishes import one_of
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.common.stop_signal import StopSignal
from meshwright.plugins.cost_graph_solver import find_cost_graph_solver
from meshwright.render.cost_graph_solution import render_cost_graph_solution, show_progress
from meshwright.schema.cost_graph import (
    CostGraphEngine,
    CostGraphFile,
    CostGraphProgress,
    CostGraphSolution,
)

LONGEST_S = 10**6  # seconds; the most that a service takes


def solve(
    file: Annotated[
        Path,
        typer.Argument(
            help="Cost graph in the format of the IOPDDL contest: .json, .json.gz or .json.zst."
        ),
    ],
    server: Annotated[
        str | None, typer.Option(help="URL of a service that searches.", envvar=SERVER)
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Seconds to search at most.")] = 60.0,
    engine: Annotated[
        str, typer.Option(help=f"One of {', '.join(get_args(CostGraphEngine))}.")
    ] = "auto",
    seed: Annotated[
        int, typer.Option(min=0, max=2**31, help="Seed of the random moves of lagrangian.")
    ] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file.", callback=writable)
    ] = None,
) -> None:
    """Solve a cost graph of another compiler.

    The solution has one strategy for each node, at the least cost within the usage limit.

    Ctrl-C ends the search and keeps the best solution so far. Exit codes: 0 with a solution, 1 if
    no solution keeps the limit or none was found in time.
    """
    chosen = one_of("--engine", engine, get_args(CostGraphEngine))
    if server is None:
        _solve_here(file, chosen, seconds, seed, output)
    else:
        _solve_at(server, file, chosen, seconds, seed, output)


def _solve_at(
    server: str,
    file: Path,
    engine: CostGraphEngine,
    seconds: float,
    seed: int,
    output: Path | None,
) -> None:
    document = read_document(file, CostGraphFile)
    began = time.monotonic()
    with Client(server) as client, ProgressLine() as line:
        solution = client.solve(
            document,
            engine=engine,
            seconds=min(seconds, LONGEST_S),
            seed=seed,
            on_progress=lambda step: _show(line, step),
        )
    _tell(solution, output, time.monotonic() - began, ended_early=False)


def _show(line: ProgressLine, step: CostGraphProgress) -> None:
    line.show(step.engine, found=show_progress(step.cost, step.lower_bound))


def _solve_here(
    file: Path, engine: CostGraphEngine, seconds: float, seed: int, output: Path | None
) -> None:
    solver = find_cost_graph_solver()
    document = read_document(file, CostGraphFile)
    began = time.monotonic()
    with StopSignal(signal.SIGINT) as stop, ProgressLine(stop) as line:
        line.show("preparing")
        solution = solver(
            document,
            engine=engine,
            seconds=seconds if math.isfinite(seconds) else None,
            seed=seed,
            report=lambda step: _show(line, step),
            stop=stop,
        )
    _tell(solution, output, time.monotonic() - began, ended_early=stop.heeded)


def _tell(
    solution: CostGraphSolution, output: Path | None, seconds: float, *, ended_early: bool
) -> None:
    if solution.choice is None:
        why = "; ".join(solution.notes)
        if solution.status == "infeasible":
            _notice(f"the cost graph is infeasible: {why}")
            raise typer.Exit(1)
        if ended_early:
            _notice("the search was ended before it had found a choice")
            raise typer.Exit(INTERRUPTED)
        _notice(f"no choice within the limit was found: {why}. Give it more --seconds")
        raise typer.Exit(1)
    if output is not None:
        save(output, solution)
    results().print(render_cost_graph_solution(solution, seconds=seconds), soft_wrap=True)
    if ended_early and solution.status != "optimal":
        _notice("the search was ended early; this is the best choice until then")
    if output is not None:
        say_written(output)


def _notice(text: str) -> None:
    notices().print(f"meshwright: {text}", markup=False, soft_wrap=True)
