"""CP-SAT on an encoding: every solution is offered to the incumbent, bounds go where they belong.

One worker with a fixed seed: equal input gives an equal search.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ortools.sat.python import cp_model

from meshwright_solver.common.deadline import Deadline, OutOfTime, never
from meshwright_solver.search.core.incumbent import Incumbent
from meshwright_solver.search.integer.encoding import Encoding
from meshwright_solver.search.integer.reductions import NoChoice

_SEED = 1
_WORK = 3000.0  # chosen: deterministic seconds, about an hour on one core
_LOOK_S = 0.1  # chosen: who stops a search does not wait longer
_EXCLUDED = 1000  # chosen: choices that only the rounding of memories lets in are rare

STAGE = "CP-SAT"


class Minimiser:
    """is_spent: the limit of work came first."""

    def __init__(
        self,
        encoding: Encoding,
        incumbent: Incumbent,
        deadline: Deadline,
        raise_bound: Callable[[float, str], None],
        is_enough: Callable[[], bool],
    ) -> None:
        self.encoding = encoding
        self.incumbent = incumbent
        self.deadline = deadline
        self.raise_bound = raise_bound
        self.is_enough = is_enough
        self.is_spent = False
        self._work_left = _WORK
        self._failure: BaseException | None = None

    def run(self, upper_ns: float, hint: dict[int, int]) -> None:
        """Until the optimum is proved or found good enough. Raises OutOfTime and NoChoice."""
        encoding = self.encoding
        encoding.minimise(upper_ns)
        encoding.hint(hint)
        for _ in range(_EXCLUDED):
            solver = self._solver()
            with _stoppable(solver, self.deadline):
                status = solver.solve(encoding.model, _Offering(self, solver))
            if self._failure is not None:
                raise self._failure
            self._work_left -= solver.deterministic_time
            if status == cp_model.INFEASIBLE:
                raise NoChoice
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
                raise AssertionError(f"CP-SAT: {solver.status_name(status)}")
            self._bound(solver.best_objective_bound)
            if self.is_enough():
                return
            if status != cp_model.OPTIMAL:
                self.is_spent = self._work_left <= 0
                if not self.is_spent:
                    raise OutOfTime
                return
            places = self._places(solver)
            if not self._is_cut(places):
                return
        self.is_spent = True

    def _is_cut(self, places: dict[int, int]) -> bool:
        """Add what rules an optimal solution out that the judge does not accept."""
        pairs = self.encoding.pairs
        found = self.incumbent.offer(pairs.expanded(places), STAGE)
        if pairs.limit_bytes is None or found.memory_bytes <= pairs.limit_bytes:
            return False
        missing = [
            moment
            for moment, taken in enumerate(pairs.profile(places))
            if taken > pairs.limit_bytes and moment not in self.encoding.moments
        ]
        for moment in missing:
            self.encoding.add_row(moment)
        if not missing:
            self.encoding.exclude(places)
        return True

    def _solver(self) -> cp_model.CpSolver:
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = _SEED
        parameters.linearization_level = 2
        parameters.symmetry_level = 0
        parameters.catch_sigint_signal = False  # who asks for an end says so by the deadline's stop
        parameters.max_deterministic_time = self._work_left
        left = self.deadline.left_s()
        if left is not None:
            if left <= 0:
                raise OutOfTime
            parameters.max_time_in_seconds = left
        solver.best_bound_callback = lambda bound: self._guarded(solver, lambda: self._bound(bound))
        return solver

    def _bound(self, objective: float) -> None:
        self.raise_bound(self.encoding.bound_ns(objective), STAGE)

    def _places(self, values: _Offering | cp_model.CpSolver) -> dict[int, int]:
        return {
            node: next(k for k, literal in enumerate(literals) if values.boolean_value(literal))
            for node, literals in self.encoding.states.items()
        }

    def _guarded(self, solver: cp_model.CpSolver, act: Callable[[], None]) -> None:
        """Exceptions of a report do not survive the way through CP-SAT: they are kept for `run`."""
        if self._failure is not None:
            return
        try:
            act()
        except BaseException as failure:  # raised again by run
            self._failure = failure
        if self._failure is not None or self.is_enough():
            solver.stop_search()


@contextmanager
def _stoppable(solver: cp_model.CpSolver, deadline: Deadline) -> Iterator[None]:
    """End the search where the deadline's stop is asked for: CP-SAT does not ask."""
    if deadline.stop is never:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_S):
            if deadline.stop():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


class _Offering(cp_model.CpSolverSolutionCallback):
    def __init__(self, minimiser: Minimiser, solver: cp_model.CpSolver) -> None:
        super().__init__()
        self._minimiser = minimiser
        self._solver = solver

    def on_solution_callback(self) -> None:
        minimiser = self._minimiser
        pairs = minimiser.encoding.pairs

        def offer() -> None:
            places = minimiser._places(self)
            minimiser.incumbent.offer(pairs.expanded(places), STAGE)

        minimiser._guarded(self._solver, offer)
