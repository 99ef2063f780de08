"""Search over cost graphs of any size and shape: bounds by Lagrange multipliers, choices by blocks.

    1. exact reductions            lagrangian/reductions.py
    2. prices of memory, bounds    lagrangian/multipliers.py: message passing under prices
    3. choices                     lagrangian/descent.py: blocks of the graph solved exactly

Steps 2 and 3 run side by side, in rounds of fixed work, and exchange their results after each.
The search ends when the gap is within the tolerance, no result improves, or the time is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.deadline import OutOfTime
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.incumbent import Report
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.search.core.search_state import SearchState
from meshwright_solver.search.lagrangian.descent import Descent
from meshwright_solver.search.lagrangian.enumeration import cheapest_of_all
from meshwright_solver.search.lagrangian.memory_profile import leanest
from meshwright_solver.search.lagrangian.merging import merged
from meshwright_solver.search.lagrangian.model import PairwiseModel, model_of, states_of
from meshwright_solver.search.lagrangian.multipliers import Multipliers
from meshwright_solver.search.lagrangian.reductions import Reduced, reduced

_ROUND_WORK = 4e8  # chosen: most additions of one side in one round; 0.5 s
_COPIES = 10  # measured: of all tables at the peak: both ways round for each descent, and reduced
_ENUMERATED = 50_000  # chosen: most choices of an enumeration; 0.1 s
_LEAST_ROUND_WORK = 3e5  # chosen: 0.5 ms
_WORK_PER_ENTRY = 2000.0  # chosen: additions in one round by entries of the model
_IDLE_ROUNDS, _IDLE_ROUNDS_IN_TIME = 12, 400  # chosen: rounds without progress that end a search
_WORTH_A_TRY = 1.01  # chosen: the cost of a useful start, relative to the best
_MEMORY_ROUNDING = 1e-9  # chosen: relative, where memory is not in whole bytes
_STOP_SECONDS = 0.1  # chosen: between checks for a stop
_GRACE_SECONDS = 0.5  # chosen: for compiled loops to notice a stop
_FORBIDDEN_SHARE = 1e3  # chosen: the cost of a forbidden entry, of the sum of all largest costs

Task = Callable[[float, float, IntArray], None]  # work, least known cost, stop


def lagrangian_search(
    graph: CostGraph,
    budget: SearchBudget,
    report: Report | None = None,
    start: IntArray | None = None,
    *,
    cores: int = 2,
    seed: int = 0,
) -> Outcome:
    """Deterministic unless time runs out, for any number of cores. Raises TableTooLarge where the
    tables of all edges together, each counted once per use, exceed the memory for tables.
    """
    return LagrangianSearch(graph, budget, report, start, cores=cores, seed=seed).outcome()


class LagrangianSearch(SearchState):
    """The search as an object, so that another thread can read its results while it runs."""

    def __init__(
        self,
        graph: CostGraph,
        budget: SearchBudget,
        report: Report | None = None,
        start: IntArray | None = None,
        *,
        cores: int = 2,
        seed: int = 0,
    ) -> None:
        super().__init__(graph, budget, report, start)
        self.cores = cores
        self.seed = seed
        self.start = start
        self.limit = math.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
        self.round_work = _ROUND_WORK

    def outcome(self) -> Outcome:
        try:
            self._search()
        except OutOfTime:
            self.note_out_of_time()
        return self.so_far()

    def _search(self) -> None:
        self._check_held()
        small = reduced(model_of(self.graph), self.deadline)
        if small.model is None:
            self.prove_infeasible("every choice takes a forbidden state or pair")
            return
        if (small.model.base > self.limit * (1 + _MEMORY_ROUNDING)).any():
            self.prove_infeasible("every choice takes more memory than the limit")
            return
        if (small.model.usage % 1.0).any():
            # sums in another order must not exceed the limit by a rounding
            self.limit *= 1 - _MEMORY_ROUNDING
        if np.log(small.model.extents).sum() <= math.log(_ENUMERATED):
            self._enumerate(small, small.model)
            return
        entries = len(small.model.pair) + len(small.model.unary)
        self.round_work = min(max(_WORK_PER_ENTRY * entries, _LEAST_ROUND_WORK), _ROUND_WORK)
        self._improve(small, _softened(small.model))

    def _check_held(self) -> None:
        extents = self.graph.extents
        pairs = [(edge.tail, edge.head) for edge in self.graph.edges]
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        entries = int((extents[ends[:, 0]] * extents[ends[:, 1]]).sum())
        most = self.budget.max_held_entries // _COPIES
        if entries > most:
            raise TableTooLarge("all edges together", entries, most)

    def _enumerate(self, small: Reduced, model: PairwiseModel) -> None:
        best = cheapest_of_all(model, self.limit)
        if best is None:
            self.prove_infeasible("every choice takes too much memory, or what is forbidden")
            return
        self._offer(small, best, "enumeration")
        self.incumbent.raise_bound(self.incumbent.cost_ns, "enumeration")

    def _improve(self, small: Reduced, model: PairwiseModel) -> None:
        first = leanest(model)
        self._offer(small, first, "leanest")
        if self.start is not None:
            first = small.project(states_of(self.graph, self.start))
        multipliers = Multipliers(model, self.limit)
        descents = [Descent(model, self.limit, first, self.seed + number) for number in range(2)]
        stop = np.zeros(1, dtype=np.int64)
        sessions = _Sessions()
        idle = 0
        most_idle = _IDLE_ROUNDS if self.budget.seconds is None else _IDLE_ROUNDS_IN_TIME
        pool = ThreadPoolExecutor(max_workers=self.cores)
        try:
            while idle < most_idle and not self.incumbent.is_closed():
                before = self.incumbent.cost_ns, self.incumbent.lower_bound_ns
                tasks = sessions.next_tasks(multipliers, descents)
                running = [
                    pool.submit(task, self.round_work, self.incumbent.cost_ns, stop)
                    for task in tasks
                ]
                in_time = self._wait_for(running, stop)
                self._exchange(small, multipliers, descents, sessions)
                if not in_time:
                    raise OutOfTime
                after = self.incumbent.cost_ns, self.incumbent.lower_bound_ns
                idle = 0 if after != before or not multipliers.is_done else idle + 1
                if self.incumbent.lower_bound_ns >= self.budget.cutoff_ns:
                    self.notes.append("nothing here costs less than cutoff_ns")
                    return
        finally:
            pool.shutdown(wait=False)

    def _wait_for(self, running: list[Future[None]], stop: IntArray) -> bool:
        """False if time ran out; the tasks then end at once, or are abandoned."""
        unfinished = set(running)
        while unfinished and not self.deadline.is_over():
            remaining_s = self.deadline.left_s()
            step = _STOP_SECONDS if remaining_s is None else min(remaining_s, _STOP_SECONDS)
            unfinished = wait(unfinished, step).not_done
        if not unfinished:
            for task in running:
                task.result()
            return True
        stop[0] = 1
        wait(running, _GRACE_SECONDS)
        return False

    def _exchange(
        self,
        small: Reduced,
        multipliers: Multipliers,
        descents: list[Descent],
        sessions: _Sessions,
    ) -> None:
        best, other = sorted(descents, key=lambda descent: descent.rank)
        if best.is_within and best.origin is other.origin:
            merged_states = merged(best.model, best.origin, best.states, other.states, best.rank_of)
            best.restart(merged_states)
        if multipliers.decoded_rank < best.rank:
            best.restart(multipliers.decoded)
        if best.is_within:
            self._offer(small, best.states, "blocks")
        self.incumbent.raise_bound(_rounded(multipliers.bound), "multipliers")
        for descent in descents:
            descent.set_prices(multipliers.prices)
        if sessions.is_over():
            for descent in descents:
                descent.restart(best.states)
            descents[1].origin = descents[0].origin

    def _offer(self, small: Reduced, states: IntArray, stage: str) -> None:
        self.incumbent.offer(small.invert(states)[: len(self.graph.nodes)], stage)


class _Sessions:
    """The schedule of the rounds, by progress and never by the clock.

    The multipliers run while their bound rises, and every second round after that. One descent
    continues from the best choice. The other sometimes starts from the choice that the prices
    suggest and has a session, of growing length, to improve on the best.
    """

    def __init__(self) -> None:
        self._round = 0
        self._left = 0
        self._length = 1
        self._challenges = False

    def next_tasks(self, multipliers: Multipliers, descents: list[Descent]) -> list[Task]:
        self._round += 1
        rises = not multipliers.is_done and (multipliers.is_rising or self._round % 2 == 0)
        if self._left == 0:
            best = min(descent.rank for descent in descents)
            self._challenges = (
                rises
                and not self._challenges
                and (best[0] > 0.0 or multipliers.decoded_rank[1] < _WORTH_A_TRY * best[1])
            )
            self._length = self._length + 1 if self._challenges else self._length
            self._left = self._length if self._challenges else max(self._length // 2, 1)
            if self._challenges:
                descents[1].restart(multipliers.decoded)
        self._left -= 1
        if not rises:
            return [descents[0].advance, descents[1].advance]
        return [multipliers.advance, descents[1 if self._challenges else 0].advance]

    def is_over(self) -> bool:
        """Whether the challenger must continue from the best choice of both descents."""
        return self._left == 0 or not self._challenges


def _rounded(bound: float) -> float:
    """The bound less the rounding error of a sum of some 100,000 doubles."""
    return bound - 1e-10 * abs(bound)


def _softened(model: PairwiseModel) -> PairwiseModel:
    """Forbidden entries as very large numbers, so that a choice with one can still improve."""
    if np.isfinite(model.pair).all() and np.isfinite(model.unary).all():
        return model
    unary, pair = model.unary.copy(), model.pair.copy()
    widest = 1.0
    for table in (unary, pair):
        finite = table[np.isfinite(table)]
        widest += float(np.ptp(finite)) if len(finite) else 0.0
    for table in (unary, pair):
        table[table == np.inf] = _FORBIDDEN_SHARE * widest
    return model._replace(unary=unary, pair=pair)
