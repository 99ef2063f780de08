"""Plans of all stages of a pipeline, from one search each, and their cost together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from meshwright.schedules.schedule import ScheduleTable
from meshwright.schema import Answer, Infeasible, Mesh, Plan, RecomputePolicy, Request, step_batch
from meshwright.schema.garbage_collection import uncollected
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.common.deadline import Deadline, Stop
from meshwright_solver.evaluation.memory_shortfall import Misfit
from meshwright_solver.evaluation.step_time.closed_form import Lengths
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import within
from meshwright_solver.pipeline.parallel_map import fanned
from meshwright_solver.pipeline.pipeline_cost import Priced, priced
from meshwright_solver.pipeline.stage_cost import StageCost, stage_cost
from meshwright_solver.pipeline.stage_equivalence import as_planned_for
from meshwright_solver.pipeline.stage_problems import Staged, StageProblem
from meshwright_solver.search.core.outcome import MOST_LABELS
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_planner import plan_stage
from meshwright_solver.stage.stage_position import StagePosition

StagePlanner = Callable[[Request, Report | None, Stop, StagePosition], Answer]

# chosen: each round takes the shortfall from the stages' shares; the second mostly suffices
_ROUNDS = 4
_LITTLE_MORE = 1.15  # chosen: ranks are balanced for their estimates, which are a few per cent off
_MARGIN = 1.002  # chosen: needs are rounded


@dataclass(frozen=True, slots=True)
class StageWishes:
    """The parameters of the stage searches, by stage.

    shares: of the devices' memory (`Staged.request`). held: microbatches in flight. passing: bytes
    of room for transient memory. kinds: equal stages of the same kind have one plan. meshes: those
    to search; all if empty. policies: of recomputation, tried first; the request's policy is the
    fallback, and applies if this is empty. max_labels: of each search (`Budget`).
    """

    shares: tuple[float, ...]
    held: tuple[float, ...]
    passing: tuple[float, ...]
    kinds: tuple[int, ...]
    meshes: tuple[tuple[Mesh, ...], ...] = ()
    policies: tuple[RecomputePolicy, ...] = ()
    max_labels: int = MOST_LABELS

    @staticmethod
    def of(shares: tuple[float, ...], order: ScheduleTable) -> StageWishes:
        """Wishes with one plan for equal stages; waiting bytes count as saved."""
        none = (0,) * order.stages
        return StageWishes(shares, order.in_flight, none, none)


# whether planned stages are worth more plans, from their passes by stage
Worth = Callable[[Mapping[int, Lengths]], bool]
_SLOWER = "with the stages that were planned it takes longer than the best plan"
_OVER = "the time was over before all stages had plans"

# number of the stage, share of the memory, microbatches in flight, bytes for transient memory
Wish = tuple[int, float, float, float]


@dataclass(frozen=True, slots=True)
class StageTask:
    """The search task of one stage; picklable, with the graph of the stage alone.

    policy: of recomputation; None for that of the request. share: of the time. planned: the search.
    judged: the problem for the evaluation of its plan. split: whether the schedule splits backward
    passes.
    """

    request: Request
    place: StagePosition
    policy: RecomputePolicy | None
    share: float
    planned: StagePlanner
    judged: StageProblem
    split: bool

    @staticmethod
    def of(
        request: Request,
        staged: Staged,
        wish: Wish,
        place: StagePosition,
        policy: RecomputePolicy | None,
        share: float = 1.0,
        planned: StagePlanner = plan_stage,
    ) -> StageTask:
        """The task for a wish. place: see `place_of`."""
        number, memory_share, *_ = wish
        if request.recompute.policy != "none":
            place = replace(place, blocks=staged.blocks[number])
        stage_request = staged.request(request, number, memory_share)
        judged = staged.stage_problem(number)
        return StageTask(
            stage_request, place, policy, share, planned, judged, staged.schedule.is_split
        )


def place_of(staged: Staged, wish: Wish, wishes: StageWishes, tolerance: float) -> StagePosition:
    """The position of a stage: the parameters that depend on its neighbors."""
    number, _, held, passing = wish
    return StagePosition(
        held,
        staged.link(number),
        tolerance,
        frozenset(staged.sent(number)),
        passing,
        wishes.max_labels,
        wishes.meshes[number] if wishes.meshes else (),
    )


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """The answer of a stage search. cost: of the plan at its position; None without a plan."""

    answer: Answer
    cost: StageCost | None = None


@uncollected
def plan_with_fallback(task: StageTask, deadline: Deadline) -> StageAnswer:
    """The answer with the task's policy, else with the request's policy if that has no plan."""
    stage_answer = plan_with_policy(task, deadline)
    if stage_answer.answer.plan is None and task.policy is not None:
        return plan_with_policy(replace(task, policy=None), deadline)
    return stage_answer


@uncollected
def plan_with_policy(task: StageTask, deadline: Deadline) -> StageAnswer:
    """The answer with the task's policy alone."""
    answer = _answer_of(task, task.policy, deadline)
    if answer.plan is None:
        return StageAnswer(answer)
    problem = task.judged.problem(calibration_for(task.request))
    return StageAnswer(answer, stage_cost(problem, answer.plan.stages[0], split=task.split))


def any_worth(planned: Mapping[int, Lengths]) -> bool:
    """Plan all stages, however long they take."""
    del planned
    return True


def _answer_of(task: StageTask, policy: RecomputePolicy | None, deadline: Deadline) -> Answer:
    request, place = within(task.request, deadline, task.share), task.place
    if policy is None:
        place = replace(place, meshes=())
    else:
        recompute = request.recompute.model_copy(update={"policy": policy})
        request = request.model_copy(update={"recompute": recompute})
    return task.planned(request, None, deadline.stop, place)


@dataclass(frozen=True, slots=True)
class StagePlans:
    """The plans of all stages with their cost together.

    alone: answers of the planned stages. first: by stage, the stage whose plan it has.
    """

    configuration: Configuration
    priced: Priced
    alone: Mapping[int, StageAnswer]
    first: tuple[int, ...]

    @staticmethod
    def of(
        configuration: Configuration,
        staged: Staged,
        alone: Mapping[int, StageAnswer],
        first: tuple[int, ...],
    ) -> StagePlans:
        """The evaluated plans; every answer in `alone` must have a plan."""
        stages = [
            as_planned_for(
                _plan(alone[planned]).stages[0], staged.graphs[planned], staged.graphs[stage]
            )
            for stage, planned in enumerate(first)
        ]
        costs = {number: answer.cost for number, answer in alone.items() if answer.cost is not None}
        return StagePlans(configuration, priced(staged, stages, first, costs), alone, first)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each stage alone, in order."""
        return tuple([_plan(self.alone[number]) for number in self.first])

    @property
    def ns(self) -> float:
        return self.priced.cost.step_ns

    @property
    def over_bytes(self) -> list[int]:
        """The shortfall of device memory by rank; at most 0 if the rank fits."""
        return [use.total - use.capacity for use in self.priced.of_ranks]


def _lengths(
    first: Sequence[int], wanted: Mapping[int, Wish], known: Mapping[Wish, StageAnswer]
) -> dict[int, Lengths]:
    """The passes of all stages whose plan is known."""
    costs = {number: known[wish].cost for number, wish in wanted.items() if wish in known}
    return {
        stage: cost.lengths
        for stage, number in enumerate(first)
        if (cost := costs.get(number)) is not None
    }


def _plan(stage_answer: StageAnswer) -> Plan:
    assert stage_answer.answer.plan is not None
    return stage_answer.answer.plan


def plan_stages_that_fit(
    request: Request,
    configuration: Configuration,
    staged: Staged,
    wishes: StageWishes,
    deadline: Deadline,
    tolerance: float,
    executor: Executor | None = None,
    worth: Worth = any_worth,
) -> StagePlans | Infeasible:
    """`plan_stages`, repeated with smaller shares while the peak of a rank exceeds its memory.

    A stage search counts saved activations until the last pass, for one stage alone. The buffers of
    a split backward pass can be larger, and only a plan determines them.

    A stage that needs a little more than its share gets it: others of its rank may need less.
    """
    plans: StagePlans | Infeasible
    closest: StagePlans | None = None
    known: dict[Wish, StageAnswer] = {}
    batch = step_batch(request.graph, request.setup)
    for _ in range(_ROUNDS):
        plans = plan_stages(
            request,
            configuration,
            staged,
            wishes,
            deadline,
            tolerance,
            plan_stage,
            executor,
            known,
            worth,
        )
        if isinstance(plans, Infeasible):
            wider = None if closest is not None else _wider(wishes, staged, known, request)
            if wider is None or deadline.is_over():
                return plans if closest is None else _shortfall(closest, batch)
            wishes = wider
            continue
        over = plans.over_bytes
        if max(over) <= 0:
            return plans
        if closest is not None and max(over) >= max(closest.over_bytes):
            break
        closest = plans
        wishes = replace(wishes, shares=_reduced_shares(wishes.shares, staged, over, request))
        if min(wishes.shares) <= 0 or deadline.is_over():
            break
    return plans if closest is None else _shortfall(closest, batch)


def _wider(
    wishes: StageWishes, staged: Staged, known: dict[Wish, StageAnswer], request: Request
) -> StageWishes | None:
    """The wishes with what the last stage without a plan needs; None if that is much more."""
    if not known:
        return None
    (number, share, *_), stage_answer = next(reversed(known.items()))
    why = stage_answer.answer.infeasible
    if why is None or why.constraint != "memory" or not why.needed_bytes or not why.available_bytes:
        return None
    needed = share * why.needed_bytes / why.available_bytes
    if needed > min(1.0, _LITTLE_MORE * share):
        return None
    kinds = _kinds(staged, wishes, request)
    shares = zip(wishes.shares, kinds, strict=True)
    more = tuple([_MARGIN * needed if kind == kinds[number] else own for own, kind in shares])
    return replace(wishes, shares=more)


def _kinds(staged: Staged, wishes: StageWishes, request: Request) -> list[tuple[int, int]]:
    """By stage, a key that stages with one plan share."""
    return list(zip(staged.alike(request), wishes.kinds, strict=True))


def _shortfall(closest: StagePlans, batch: int | None) -> Infeasible:
    """The shortfall of the closest plans. Other plans may exist that fit."""
    over = closest.over_bytes
    rank = over.index(max(over))
    misfit = Misfit(
        closest.priced.of_ranks[rank],
        closest.configuration.microbatches,
        batch,
        any(stage.recompute is not None for stage in closest.priced.stages),
    )
    infeasible = misfit.infeasible()
    return infeasible.model_copy(update={"detail": f"pipeline rank {rank}: {infeasible.detail}"})


def _reduced_shares(
    shares: tuple[float, ...], staged: Staged, over: Sequence[int], request: Request
) -> tuple[float, ...]:
    """The shares of stages, reduced by equal parts of the shortfall of their ranks."""
    count = staged.schedule.stages // staged.schedule.ranks
    usable = request.setup.usable_memory
    limits = [part.topology.device.memory_bytes * usable for part in staged.parts]
    ranks = staged.schedule.rank_of
    return tuple(
        share - max(over[rank], 0) / (count * limits[rank])
        for share, rank in zip(shares, ranks, strict=True)
    )


def plan_stages(
    request: Request,
    configuration: Configuration,
    staged: Staged,
    wishes: StageWishes,
    deadline: Deadline,
    tolerance: float,
    planned: StagePlanner = plan_stage,
    executor: Executor | None = None,
    known: dict[Wish, StageAnswer] | None = None,
    worth: Worth = any_worth,
) -> StagePlans | Infeasible:
    """The plans of all stages within their wishes, or the reason for none.

    tolerance: of each stage search. planned: the stage search, a function at module level. known:
    cache of answers, extended in place. worth: asked after each plan but the last. Equal stages of
    one kind have one plan: with the most microbatches in flight and the least memory of them.
    """
    kinds = _kinds(staged, wishes, request)
    first = [kinds.index(kind) for kind in kinds]
    different = sorted(set(first))
    known = {} if known is None else known
    wanted: dict[int, Wish] = {}
    for number in different:
        members = [stage for stage, planned_stage in enumerate(first) if planned_stage == number]
        share = min(wishes.shares[stage] for stage in members)
        held = max(wishes.held[stage] for stage in members)
        wanted[number] = number, share, held, max(wishes.passing[stage] for stage in members)
    new = [wish for wish in wanted.values() if wish not in known]
    tasks = []
    for done, wish in enumerate(new):
        policy = wishes.policies[wish[0]] if wishes.policies else None
        time_share = 1.0 if executor is not None else 1 / (len(new) - done)
        place = place_of(staged, wish, wishes, tolerance)
        tasks.append(StageTask.of(request, staged, wish, place, policy, time_share, planned))
    for wish, stage_answer in zip(
        new, fanned(plan_with_fallback, tasks, deadline, executor), strict=False
    ):
        known[wish] = stage_answer
        if stage_answer.answer.plan is None:
            break
        if wish is not new[-1] and not worth(_lengths(first, wanted, known)):
            return Infeasible(constraint="time", detail=_SLOWER)
    for number, wish in wanted.items():
        if wish not in known:
            return Infeasible(constraint="time", detail=_OVER)
        answer = known[wish].answer
        if answer.plan is None:
            why = answer.infeasible
            assert why is not None
            return why.model_copy(update={"detail": f"stage {number}: {why.detail}"})
    alone = {number: known[wish] for number, wish in wanted.items()}
    return StagePlans.of(configuration, staged, alone, tuple(first))
