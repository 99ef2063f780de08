"""A sweep in local processes: each plans one point after the other.

A process that ends without an answer, for lack of memory for instance, is replaced. The points that
it may have planned are planned again, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache

from meshwright.common.process_pool import killable_processes, usual_processes
from meshwright.common.stop_signal import Stop, never
from meshwright.plugins.planner import find_planner, planner_build, planner_modules, preset
from meshwright.reports.plan_figures import figures_of
from meshwright.schema import (
    Calibration,
    Graph,
    MeshwrightError,
    Plan,
    RequestError,
    Topology,
)
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.sweep import Sweep, SweepPoint, SweepResult, SweepRow, SweepState
from meshwright.sweeps.points import points_of, request_of, topologies_of
from meshwright.sweeps.rows import check_prices, row_of, with_front

_POLL_S = 0.2  # chosen: seconds between two looks at `stop`
_LONGEST = 500  # chosen: characters of a reason
_MOST_LOSSES = 2  # chosen: processes that one point may lose

OnRow = Callable[[int, SweepRow], None]
OnPlan = Callable[[SweepPoint, Plan], None]


def run_sweep(
    sweep: Sweep,
    graph: Graph,
    *,
    calibration: Calibration | None = None,
    workers: int | None = None,
    planner: str = "default",
    known: Mapping[SweepPoint, SweepRow] | None = None,
    stop: Stop = never,
    on_row: OnRow | None = None,
    on_plan: OnPlan | None = None,
) -> SweepResult:
    """Plan all points in local processes.

    workers: the number of processes; by default one for each processor, at most 8. planner: the
    name of the planner, or `module:function`. known: final rows of an earlier run, which are not
    planned again. stop: polled; once true, points without an answer have the state `cancelled`.
    on_row: called with the place and the row of each answer. on_plan: called with each plan.

    Raises RequestError for a topology that does not exist, and for a sweep without a valid point.
    """
    points = points_of(sweep)
    topologies = resolved(sweep)
    check_prices(sweep, topologies)
    known = known or {}
    rows: dict[int, SweepRow] = {
        place: known[point] for place, point in enumerate(points) if point in known
    }
    graph_json = graph.to_json().encode()
    task = _Task(sweep, graph_json, graph.id, calibration, planner, on_plan is not None)
    waiting = [place for place in range(len(points)) if place not in rows]
    count = min(workers or usual_processes(), max(1, len(waiting)))
    for place, answer in _answers(task, points, topologies, waiting, count, stop):
        point = points[place]
        if answer.plan is not None and on_plan is not None:
            on_plan(point, answer.plan)
        rows[place] = row_of(
            sweep,
            point,
            answer.state,
            topology=topologies[point.topology],
            figures=answer.figures,
            reason=answer.reason,
        )
        if on_row is not None:
            on_row(place, rows[place])
    result = result_of(sweep, graph, [rows.get(place) for place in range(len(points))])
    _check_any_valid(result)
    return result


def result_of(sweep: Sweep, graph: Graph, rows: Iterable[SweepRow | None]) -> SweepResult:
    """The result of a sweep; a point without a row was cancelled."""
    points = points_of(sweep)
    complete = (
        row or row_of(sweep, point, "cancelled") for point, row in zip(points, rows, strict=True)
    )
    return SweepResult(
        sweep=sweep,
        graph=graph.id,
        graph_name=graph.name,
        planner_build=planner_build(),
        rows=with_front(complete),
    )


def resolved(sweep: Sweep) -> dict[str, Topology]:
    """The topologies of a sweep by name; RequestError for one that is neither document nor preset.

    Ids of a service are not known here.
    """
    found: dict[str, Topology] = {}
    for name, topology in topologies_of(sweep).items():
        found[name] = preset(topology) if isinstance(topology, str) else topology
    return found


@dataclass(frozen=True, slots=True)
class _Task:
    """The part of the work that is the same for all points. graph: its JSON, parsed once by each
    process."""

    sweep: Sweep
    graph: bytes
    graph_id: str
    calibration: Calibration | None
    planner: str
    wants_plans: bool

    def __call__(self, point: SweepPoint, topology: Topology) -> _PointAnswer:
        graph = _parsed(self.graph_id, self.graph)
        try:
            by_name = {point.topology: topology}
            request = request_of(self.sweep, point, graph, by_name, self.calibration)
            answer = find_planner(self.planner)(request)
            if answer.plan is None:
                assert answer.infeasible is not None
                return _PointAnswer("infeasible", reason=answer.infeasible.detail)
            figures = figures_of(answer.plan, request)
        except MeshwrightError as error:
            return _PointAnswer("refused", reason=error.detail)
        except Exception as fault:  # of the planner: the other points are planned all the same
            return _PointAnswer("failed", reason=f"{type(fault).__name__}: {fault}"[:_LONGEST])
        plan = answer.plan if self.wants_plans else None
        return _PointAnswer("planned", figures=figures, plan=plan)


@dataclass(frozen=True, slots=True)
class _PointAnswer:
    state: SweepState
    figures: PlanFigures | None = None
    plan: Plan | None = None
    reason: str = ""


_LOST = _PointAnswer(
    "failed", reason="the process that planned this point was killed; it may lack memory"
)


@lru_cache(maxsize=2)
def _parsed(graph_id: str, text: bytes) -> Graph:
    del graph_id  # the key is compared before the text
    return Graph.from_json(text)


def _answers(
    task: _Task,
    points: tuple[SweepPoint, ...],
    topologies: Mapping[str, Topology],
    waiting: list[int],
    count: int,
    stop: Stop,
) -> Iterator[tuple[int, _PointAnswer]]:
    """The answers as they come, with their places."""
    losses = dict.fromkeys(waiting, 0)
    while losses and not stop():
        # a point that may have ended its process runs alone, so that the next loss names it
        suspects = [place for place, lost in losses.items() if lost]
        places = suspects[:1] or list(losses)
        with killable_processes(count, planner_modules(task.planner)) as executor:
            try:
                for place, answer in _run(task, points, topologies, places, executor, stop):
                    del losses[place]
                    yield place, answer
            except BrokenProcessPool:
                # an executor hands out one task more than it has processes
                for place in [place for place in places if place in losses][: count + 1]:
                    losses[place] += 1
                    if losses[place] > _MOST_LOSSES:
                        del losses[place]
                        yield place, _LOST


def _run(
    task: _Task,
    points: tuple[SweepPoint, ...],
    topologies: Mapping[str, Topology],
    places: list[int],
    executor: Executor,
    stop: Stop,
) -> Iterator[tuple[int, _PointAnswer]]:
    running: dict[Future[_PointAnswer], int] = {
        executor.submit(task, points[place], topologies[points[place].topology]): place
        for place in places
    }
    while running and not stop():
        done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()


def _check_any_valid(result: SweepResult) -> None:
    if all(row.state == "refused" for row in result.rows):
        raise RequestError(f"no point of the sweep is valid: {result.rows[0].reason}")
