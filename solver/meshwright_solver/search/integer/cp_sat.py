"""CP-SAT on an encoding: the incumbent receives every solution, and every bound is reported.

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
_LOOK_S = 0.1  # chosen: the longest wait for a search to stop on request
_EXCLUDED = 1000  # chosen: few choices fit the limit only because memories are rounded

STAGE = "CP-SAT"


class Minimiser:
    """The run of CP-SAT on one encoding. is_spent: it ended at its limit of work."""

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
        """Run until the optimum is proved or good enough. Raises OutOfTime and NoChoice."""
        encoding = self.encoding
        encoding.minimise(upper_ns)
        encoding.hint(hint)
        for _ in range(_EXCLUDED):
            solver = self._solver()
            with _stoppable(solver, self.deadline):
                status = solver.solve(encoding.model, _SolutionCallback(self, solver))
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
        """Cut off an optimal solution above the limit; False where it is within the limit."""
        pairs = self.encoding.pairs
        cost = self.incumbent.offer(pairs.expanded(places), STAGE)
        if pairs.limit_bytes is None or cost.memory_bytes <= pairs.limit_bytes:
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
        parameters.catch_sigint_signal = False  # the deadline's stop ends a search on request
        parameters.max_deterministic_time = self._work_left
        remaining_s = self.deadline.left_s()
        if remaining_s is not None:
            if remaining_s <= 0:
                raise OutOfTime
            parameters.max_time_in_seconds = remaining_s
        solver.best_bound_callback = lambda bound: self._guarded(solver, lambda: self._bound(bound))
        return solver

    def _bound(self, objective: float) -> None:
        self.raise_bound(self.encoding.bound_ns(objective), STAGE)

    def _places(self, values: _SolutionCallback | cp_model.CpSolver) -> dict[int, int]:
        return {
            node: next(k for k, literal in enumerate(literals) if values.boolean_value(literal))
            for node, literals in self.encoding.states.items()
        }

    def _guarded(self, solver: cp_model.CpSolver, act: Callable[[], None]) -> None:
        """Run a callback. CP-SAT does not propagate exceptions: they are stored for `run`."""
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
    """End the search once the deadline's stop returns True, which CP-SAT does not poll."""
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


class _SolutionCallback(cp_model.CpSolverSolutionCallback):
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
