"""The search for a target: bounds, then drafts, then plans, always of what seems fastest.

Every strategy waits with the least step that it may have. The first one is looked at:

    bounded    if drafts made since raise its bound, it waits again; else it is drafted
    drafted    its schedules wait with their estimated steps
    estimated  it is planned as a stated strategy is, if its estimate fits the memory

The search ends when no estimate is below the step of a plan. Bounds and estimates are not proofs,
so that the answer is `feasible` unless its step equals the bound over all plans of the request.
A plan is kept only if the options of the target state all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import inf

from meshwright.launch_options import launch_of
from meshwright.schema import (
    Answer,
    Considered,
    Infeasible,
    InvalidInput,
    Plan,
    Progress,
    Request,
)
from meshwright_solver.common.deadline import Deadline, Stop
from meshwright_solver.evaluation.memory_shortfall import GIB
from meshwright_solver.pipeline.anatomy_cache import anatomy_of
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.shared_context import Searches, SharedContext
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.step_bound import request_bound_ns
from meshwright_solver.planning.degrees.degrees_planner import plan_stated, uncut_names
from meshwright_solver.planning.degrees.least_memory import plan_anyway
from meshwright_solver.planning.target.memory import ROOM
from meshwright_solver.planning.target.prices import PricedStrategy, Prices, draft_strategy
from meshwright_solver.planning.target.strategies import (
    StrategySpace,
    TargetStrategy,
    with_schedule,
)
from meshwright_solver.planning.target.strategy_text import considered, strategy_text
from meshwright_solver.stage.answer import time_notes
from meshwright_solver.stage.best_so_far import Best, Keep
from meshwright_solver.stage.mesh_alternatives import planned_why
from meshwright_solver.stage.parameter_bound import parameter_shortfall
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_planner import plan_stage

_AT_ONCE = 4  # chosen: drafts in one batch; results do not depend on the number of processes
_PLANNED_AT_ONCE = 2  # chosen: plans in one batch; each takes a second
_UNSURE = 0.995  # chosen: errors of estimates of one request mostly agree within as much
_LEAST_GAIN = 0.002  # chosen: of the step; what gains less is not planned
_MOST_PLANNED = 16  # chosen: a second each
_MOST_LOST = 2  # chosen: what the target cannot state is mostly a layout of tp
_MORE = 0.1  # chosen: of the layers of a stage, where those that seemed enough do not fit
_SHOWN = 12  # chosen: considered strategies in a plan
_WORTH_S = 1.0  # chosen: the least time for a search without the target

Entry = tuple[float, int, TargetStrategy | PricedStrategy]


def plan_target(
    request: Request,
    report: Report,
    stop: Stop,
    executor: Executor | None,
    keep: Keep,
    unrestricted: Callable[[Request], Answer],
) -> Answer:
    """The fastest strategy of the request's target that fits, or the reason for none.

    unrestricted: the search without a target, for the rest of the time.
    """
    space = _checked_space(request, anatomy_of(request.graph))
    shortfall = parameter_shortfall(request)
    if shortfall is not None:
        return Answer(infeasible=shortfall)
    search = _TargetSearch(space, report, Deadline.after(request.budget.seconds, stop), executor)
    best = Best(keep)
    search.run(best)
    answer = search.answer()
    if answer.plan is None:
        return answer
    return _compared(answer.plan, request, search.deadline, report, unrestricted)


def check_target(request: Request) -> None:
    """Raise the errors of `plan_target` for bad input, without a search."""
    _checked_space(request, Anatomy(request.graph))


def _checked_space(request: Request, anatomy: Anatomy) -> StrategySpace:
    """The strategies of the request's target; raises InvalidInput for a request without any."""
    if request.topology.beside:
        raise InvalidInput(
            f"strategies of {request.target} are for devices of one kind, and the topology has "
            "several. Name one of its groups as the topology",
            pointer="/topology",
        )
    if request.setup.phase != "training":
        raise InvalidInput(
            f"options of {request.target} are for training. Leave the target out",
            pointer="/target",
        )
    space = StrategySpace(request, anatomy)
    if space.batch is None:
        raise InvalidInput(
            f"{request.target} cuts the batch, and the graph has no symbol `batch`",
            pointer="/graph",
        )
    if not space.strategies:
        raise InvalidInput(
            f"no strategy of {request.target} divides a batch of {space.batch} over "
            f"{request.topology.device_count} devices with the options of the request. "
            "Use another batch, or fewer options",
            pointer="/target",
        )
    return space


class _TargetSearch:
    """The search of one request."""

    def __init__(
        self, space: StrategySpace, say: Report, deadline: Deadline, executor: Executor | None
    ) -> None:
        self.request = space.request
        self.deadline = deadline
        self._say = say
        self._space = space
        self._searches = Searches(SharedContext(space.request, space.anatomy), executor)
        self._prices = Prices(self._space, self._searches.shared)
        self._order = count()
        self._waiting: list[Entry] = []
        self._drafts = 0
        self._uncut: dict[int, bool] = {}
        self._plans: list[tuple[PricedStrategy, Plan]] = []
        self._refused: list[tuple[PricedStrategy, str]] = []
        self._too_large: list[PricedStrategy] = []
        self._least_bytes = inf
        self._lossy: Counter[int] = Counter()  # plans that lose something, by their tp

    def run(self, best: Best) -> None:
        """Plan what seems fastest until nothing else may be faster, or the time is over."""
        self._fill()
        while self._waiting and not self._time.is_over():
            if self._waiting[0][0] >= self._worth_ns or len(self._plans) >= _MOST_PLANNED:
                break
            drafts = self._due_strategies()
            if drafts:
                self._draft(drafts)
            else:
                self._plan(self._due_estimates(), best)

    def answer(self) -> Answer:
        if not self._plans:
            return Answer(infeasible=self._reason())
        priced, plan = min(self._plans, key=lambda each: each[1].cost.step_ns)
        search = plan.search.model_copy(
            update={
                "outcome": "feasible",
                "considered": tuple(self._considered(plan)),
                "step_bound_ns": request_bound_ns(self.request, self._searches.shared.work),
            }
        )
        # the notes on the statement of degrees are of the search, not of the user
        notes = (self._note(priced), *time_notes(self.request, self.deadline), *plan.notes[1:])
        return Answer(plan=plan.model_copy(update={"search": search, "notes": notes}))

    @property
    def _time(self) -> Deadline:
        """The time for estimates and plans: it has no limit until there is a plan."""
        return self.deadline if self._plans else Deadline.after(None, self.deadline.stop)

    @property
    def _best_ns(self) -> float:
        return min((plan.cost.step_ns for _, plan in self._plans), default=inf)

    @property
    def _worth_ns(self) -> float:
        """The estimate from which on nothing is planned: plans miss theirs by about as much."""
        errors = [plan.cost.step_ns / priced.ns for priced, plan in self._plans]
        return self._best_ns / (_UNSURE * min(errors, default=1.0))

    def _fill(self) -> None:
        limit_bytes = self._prices.memory.limit_bytes
        for strategy, configurations in self._space.strategies.items():
            if strategy.policy not in self._prices.policies:
                continue
            least_bytes = self._prices.memory.state_bytes(strategy)
            self._least_bytes = min(self._least_bytes, least_bytes)
            if least_bytes <= limit_bytes:
                self._push(self._prices.bound_ns(strategy, configurations), strategy)

    def _push(self, ns: float, item: TargetStrategy | PricedStrategy) -> None:
        heappush(self._waiting, (ns, next(self._order), item))

    def _due_strategies(self) -> list[TargetStrategy]:
        """The next strategies to draft; empty if an estimate is the first that waits."""
        due: list[TargetStrategy] = []
        later: list[Entry] = []
        while self._waiting and len(due) < _AT_ONCE:
            ns, number, item = self._waiting[0]
            if not isinstance(item, TargetStrategy) or ns >= self._worth_ns:
                break
            heappop(self._waiting)
            if any(_may_bound(other, item) for other in due):
                later.append((ns, number, item))
                continue
            if self._is_left_out(item):
                continue
            bound_ns = self._prices.bound_ns(item, self._space.strategies[item])
            if bound_ns > ns:
                self._push(bound_ns, item)
            else:
                due.append(item)
        for entry in later:
            heappush(self._waiting, entry)
        return due

    def _is_left_out(self, strategy: TargetStrategy) -> bool:
        return (
            self._prices.is_drafted(strategy)
            or self._prices.memory.is_too_large(strategy)
            or self._prices.is_needless(strategy)
            or not self._is_cut_by(strategy.degrees.tp)
            or not self._is_stated(strategy)
        )

    def _is_stated(self, strategy: TargetStrategy) -> bool:
        """Whether the target may state plans of this tensor parallelism: not once it lost two."""
        return self._lossy[strategy.degrees.tp] < _MOST_LOST

    def _due_estimates(self) -> list[PricedStrategy]:
        due: list[PricedStrategy] = []
        while self._waiting and len(due) < _PLANNED_AT_ONCE:
            ns, _, item = self._waiting[0]
            if isinstance(item, TargetStrategy) or ns >= self._worth_ns:
                break
            heappop(self._waiting)
            if self._is_stated(item.strategy):
                due.append(item)
        return due

    def _is_cut_by(self, tp: int) -> bool:
        """Whether tensor parallelism of this degree cuts every product evenly."""
        if tp not in self._uncut:
            self._uncut[tp] = tp == 1 or self._is_cut_evenly(tp)
        return self._uncut[tp]

    def _is_cut_evenly(self, tp: int) -> bool:
        strategy = next(s for s in self._space.strategies if s.degrees.tp == tp)
        try:
            foldings = self._space.anatomy.foldings
            request = strategy.request(self.request)
            return not uncut_names(request, strategy.microbatches, foldings)
        except InvalidInput:
            return False

    def _draft(self, strategies: Sequence[TargetStrategy]) -> None:
        if self._space.is_partial:
            # for strategies between the two
            plain = [replace(each, policy="none") for each in strategies if each.policy == "full"]
            plain = [each for each in plain if not self._prices.is_drafted(each)]
            strategies = [*(each for each in plain if each not in strategies), *strategies]
        drafts = self._searches.fanned(draft_strategy, strategies, self._time)
        for strategy, draft in zip(strategies, drafts, strict=False):
            self._drafts += 1
            if draft is None:
                continue
            self._prices.add(strategy, draft)
            for configuration in self._space.strategies[strategy]:
                priced = self._prices.priced(strategy, configuration)
                self._least_bytes = min(self._least_bytes, priced.memory_bytes)
                if priced.memory_bytes <= ROOM * self._prices.memory.limit_bytes:
                    self._push(priced.ns, priced)
                else:
                    self._too_large.append(priced)
                if self._space.is_partial and strategy.policy == "full":
                    self._push_partly(strategy, configuration)
        self._say(
            Progress(
                phase=f"strategies of {self.request.target}",
                done=self._drafts,
                total=len(self._space.strategies),
                incumbent_ns=None if self._best_ns == inf else self._best_ns,
            )
        )

    def _push_partly(
        self, strategy: TargetStrategy, configuration: Configuration, least: int = 1
    ) -> None:
        partly = self._prices.partly_recomputed(strategy, configuration, least)
        if partly is not None:
            self._push(partly.ns, partly)

    def _plan(self, due: Sequence[PricedStrategy], best: Best) -> None:
        answers = self._searches.fanned(_plan_priced, due, self._time)
        for priced, answer in zip(due, answers, strict=False):
            if answer.plan is None:
                why = answer.infeasible
                self._refused.append((priced, "no plan" if why is None else why.detail))
                if priced.strategy.blocks is not None:
                    whole = replace(priced.strategy, blocks=None)
                    layers = self._space.layers(priced.configuration)
                    more = max(1, round(layers * _MORE))
                    self._push_partly(whole, priced.configuration, priced.strategy.blocks + more)
                if why is not None and why.needed_bytes is not None:
                    self._least_bytes = min(self._least_bytes, why.needed_bytes)
                continue
            setup = self.request.setup
            plan = answer.plan.model_copy(update={"wishes": self.request.wishes, "setup": setup.id})
            lost = launch_of(
                plan, self._space.target, graph=self.request.graph, setup=self.request.setup
            ).lost
            if lost:
                self._refused.append((priced, lost[0]))
                self._lossy[priced.strategy.degrees.tp] += priced.strategy.degrees.tp > 1
                continue
            self._plans.append((priced, plan))
            if plan.cost.step_ns == self._best_ns:
                best.add(Answer(plan=plan))
                best.offer()

    def _considered(self, best: Plan) -> Iterator[Considered]:
        best_ns = best.cost.step_ns
        planned = sorted(self._plans, key=lambda each: each[1].cost.step_ns)
        entries = [
            considered(priced, planned_why(plan.cost.step_ns, best_ns), plan)
            for priced, plan in planned
            if plan is not best and plan.cost.step_ns > best_ns
        ]
        entries += [considered(priced, why) for priced, why in self._refused]
        waiting = [item for _, _, item in sorted(self._waiting) if isinstance(item, PricedStrategy)]
        entries += [
            considered(priced, f"estimated to take {priced.ns / best_ns:.3f} times")
            for priced in waiting
        ]
        limit = self._prices.memory.limit_bytes
        entries += [
            considered(priced, f"needs {(priced.memory_bytes - limit) / GIB:.1f} GiB too much")
            for priced in sorted(self._too_large, key=lambda each: each.ns)
        ]
        yield from entries[:_SHOWN]

    def _note(self, priced: PricedStrategy) -> str:
        total, planned = len(self._space.strategies), len(self._plans)
        return (
            f"{self.request.target}: {strategy_text(priced)}. Of {total} strategies that its "
            f"options state {self._drafts} were estimated and {planned} planned; the others seem "
            "slower or do not fit"
        )

    def _reason(self) -> Infeasible:
        limit = self._prices.memory.limit_bytes
        if self.deadline.stop():
            return Infeasible(
                constraint="time",
                detail=f"the search for strategies of {self.request.target} was ended before it "
                "found a plan",
            )
        if self._uncut and not any(self._uncut.values()) and not self._drafts:
            degrees = " and ".join(map(str, self._uncut))
            return Infeasible(
                constraint="pins",
                detail=f"the batch and the devices need tensor parallelism of {degrees}, which "
                "does not cut every product of the graph evenly. Use another batch, or other "
                "devices",
            )
        lost = [why for _, why in self._refused]
        if self._least_bytes <= limit and lost:
            return Infeasible(
                constraint="pins",
                detail=f"no strategy of {self.request.target} states a plan that fits: {lost[0]}",
            )
        return Infeasible(
            constraint="memory",
            detail=f"no strategy of {self.request.target} fits; the leanest needs "
            f"{self._least_bytes / GIB:.1f} GiB on a device, there are {limit / GIB:.1f} GiB after "
            "the reserve",
            needed_bytes=round(self._least_bytes),
            available_bytes=round(limit),
        )


def _may_bound(one: TargetStrategy, other: TargetStrategy) -> bool:
    """Whether the draft of one strategy may spare that of the other."""
    return (one.degrees.tp, one.degrees.cp) == (other.degrees.tp, other.degrees.cp)


def _plan_priced(shared: SharedContext, priced: PricedStrategy, deadline: Deadline) -> Answer:
    """The plan of a strategy with a schedule, if it fits."""
    request = with_schedule(priced.strategy.request(shared.request), priced.configuration)
    budget = request.budget.model_copy(update={"seconds": deadline.left_s()})
    request = request.model_copy(update={"budget": budget})
    try:
        # stages of a rank need different shares of its memory, which are known from plans only
        planned = plan_stage if priced.strategy.ranks == 1 else plan_anyway
        answer = plan_stated(request, stop=deadline.stop, planned=planned, shares=priced.shares)
    except InvalidInput as error:
        return Answer(infeasible=Infeasible(constraint="pins", detail=error.detail))
    if answer.plan is None:
        return answer
    use = answer.plan.cost.memory_bytes
    if use.total <= use.capacity:
        return answer
    needed, available = use.total - use.reserved, use.capacity - use.reserved
    return Answer(
        infeasible=Infeasible(
            constraint="memory",
            detail=f"needs {(needed - available) / GIB:.1f} GiB too much",
            needed_bytes=needed,
            available_bytes=available,
        )
    )


def _compared(
    plan: Plan,
    request: Request,
    deadline: Deadline,
    report: Report,
    unrestricted: Callable[[Request], Answer],
) -> Answer:
    """The plan with the step of the fastest plan that a search without the target finds."""
    left_s = deadline.left_s()
    if (
        not request.budget.unrestricted
        or deadline.is_over()
        or (left_s is not None and left_s < _WORTH_S)
    ):
        return Answer(plan=plan)
    report(Progress(phase="the fastest plan without a target", done=0, total=1))
    budget = request.budget.model_copy(update={"seconds": left_s})
    free = unrestricted(request.model_copy(update={"target": None, "budget": budget})).plan
    if free is None:
        return Answer(plan=plan)
    free_ns = min(free.cost.step_ns, plan.cost.step_ns)
    search = plan.search.model_copy(update={"unrestricted_ns": free_ns})
    more = plan.cost.step_ns / free_ns - 1
    note = (
        f"the fastest plan found without a target takes {free_ns / 1e6:,.1f} ms; that of "
        f"{request.target} takes {100 * more:.1f} % longer"
        if more > _LEAST_GAIN
        else f"no plan without a target was found that is faster than that of {request.target}"
    )
    notes = (*plan.notes[:1], note, *plan.notes[1:])
    return Answer(plan=plan.model_copy(update={"search": search, "notes": notes}))
