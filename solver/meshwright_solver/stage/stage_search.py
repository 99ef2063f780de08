"""The search of one stage: numbers of microbatches and recompute policies, until a plan fits."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import inf

from meshwright.schema import (
    Answer,
    Exposed,
    InvalidInput,
    Mesh,
    RecomputePolicy,
    Request,
    TooLarge,
)
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.constraints.meshes import meshes_of
from meshwright_solver.folding.fold import Folding
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.folding.folding_cache import Foldings
from meshwright_solver.folding.mesh_outcome import TOO_LARGE, History, MeshOutcome
from meshwright_solver.folding.unroll import NotAlikeError
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.stage.answer import MemoryMiss, Write, answer_of, answer_so_far
from meshwright_solver.stage.best_so_far import Best, Keep
from meshwright_solver.stage.exposed_shares import faster_answer
from meshwright_solver.stage.memory_retries import Room, plan_within_memory
from meshwright_solver.stage.memory_tradeoff import plans_along_prices
from meshwright_solver.stage.mesh_search import Floors, MeshSearch, OutcomesSoFar
from meshwright_solver.stage.mesh_space import MeshSpaces
from meshwright_solver.stage.microbatches import microbatch_counts
from meshwright_solver.stage.problem_variants import ProblemVariants
from meshwright_solver.stage.recompute.candidates import FULL, POLICIES, PolicyTrials, Trial
from meshwright_solver.stage.recompute.tradeoff import descend, ladder
from meshwright_solver.stage.request_check import check
from meshwright_solver.stage.search_progress import Report, SearchProgress
from meshwright_solver.stage.stage_position import ALONE, StagePosition
from meshwright_solver.stage.trial_order import ALL, TrialOrder

# chosen: the share of the step that waits for parameters and gradients, from which other shares of
# traffic are counted; on the finest meshes such a search takes several times as long
COARSE_WORTH = 0.01
FINE_WORTH = 0.03
LED_TOLERANCE = 0.01  # chosen: the gap at which such a search ends, as the step judges its plan
FAR_BEHIND = 1.3  # chosen: other microbatches, and `cheap` or `none` in turn, seldom gain so much
FEWER = 16  # chosen: a sixteenth of the blocks less at first
FEWER_GAIN = 0.02  # chosen: of the step, by no recomputation in any block; `cheap` seldom gains it
MOST_TRIES = 6  # chosen: numbers of blocks; each takes a plan
SHORT_S = 10.0  # chosen: a budget with which a search begins with the fastest engine
COARSE_AXES = 2  # chosen: one axis a level of most clusters; a third takes five times as long


class StageSearch:
    """The search of one stage for one request; deterministic unless time runs out."""

    def __init__(
        self,
        request: Request,
        position: StagePosition,
        foldings: Foldings,
        deadline: Deadline,
        *,
        report: Report,
        write: Write,
        keep: Keep,
        order: TrialOrder = ALL,
    ) -> None:
        """foldings: of the request's graph. write: builds the plan document. keep: receives the
        best answer so far."""
        self._order = order
        self._request = request
        self._position = position
        self._deadline = deadline
        self._report = report
        self._write = write
        self._variants = ProblemVariants(request, position, foldings)
        self._best = Best(keep)
        self._history = History()
        self._answers: dict[Hashable, Answer] = {}
        self._fastest_ns = order.beaten_ns

    def answer(self) -> tuple[Answer, PolicyTrials]:
        """The fastest plan of all that are tried, or why there is none, and the first trials.

        A whole graph is tried on coarse meshes first, where a search takes a fraction of the time;
        what is about as fast as the best there is searched on all meshes.
        """
        axes = self._request.budget.max_axes
        has_coarse = axes > COARSE_AXES and self._candidates(COARSE_AXES) != self._candidates(axes)
        if not self._is_whole or not has_coarse or self._request.recompute.policy == "ops":
            trials = self._trials(axes)
            return self._with_fewer_blocks(trials).best(), trials
        coarse = self._order.coarse or self._trials(COARSE_AXES)
        if coarse.best().plan is None:
            trials = self._trials(axes)
            return self._with_fewer_blocks(trials).best(), trials
        fine = PolicyTrials()
        worth = FINE_WORTH
        for policy, count in coarse.promising():
            if not self._deadline.is_over() or not fine.tries:
                fine.add(policy, count, self._planned(policy, count, axes, worth))
                worth = inf  # of the fastest alone
        return self._with_fewer_blocks(coarse.refined(fine)).best(), coarse

    @property
    def _is_short(self) -> bool:
        """Whether the search must have a plan at once, and has none."""
        seconds, order = self._request.budget.seconds, self._order
        is_first = order.coarse is None and order.begun is None
        return self._is_whole and is_first and seconds is not None and seconds < SHORT_S

    @property
    def _is_whole(self) -> bool:
        """Whether this is the search of a whole graph, and not of a stage or of stated degrees."""
        return self._position is ALONE and self._request.degrees is None

    def _trials(self, axes: int) -> PolicyTrials:
        """Plans by policy and number of microbatches, on meshes of at most so many axes.

        A policy gets more microbatches while its plans do not fit, or may become faster.
        """
        policy = self._request.recompute.policy
        tries = PolicyTrials()
        first: RecomputePolicy = "none" if policy == "auto" or policy == "ops" else policy
        is_open = {first: True} | {other: True for other in POLICIES if policy == "auto"}
        for count in microbatch_counts(self._request):
            try:
                answer = self._planned(first, count, axes) if is_open[first] else None
            except InvalidInput:
                if count == 1 or self._request.setup.microbatches is not None:
                    check(self._request)  # names the op of the request's graph
                    raise
                break  # the graph cannot be run at so small a batch
            if answer is not None:
                is_open[first] = tries.add(first, count, answer)
            if self._is_enough(tries):
                break
            if policy == "auto" and (answer is None or self._is_short_of_memory(answer)):
                for other in POLICIES:
                    if is_open[other] and tries.may_gain(other, self._fastest_ns):
                        is_open[other] = tries.add(other, count, self._planned(other, count, axes))
                        if self._is_enough(tries):
                            break
            if policy == "ops" and answer is not None and self._is_short_of_memory(answer):
                self._add_op_by_op(count, answer, tries)
                is_open[first] = is_open[first] and tries.best().plan is None
            if not is_open[first] or self._deadline.is_over() or self._is_enough(tries):
                break
            if not tries.may_gain_by_more(count):
                break
        return tries

    def _with_fewer_blocks(self, tries: PolicyTrials) -> PolicyTrials:
        """The trials, and those of the fastest plan's policy in fewer blocks.

        A plan that leaves memory may save the activations of some blocks. Their number doubles
        while that makes it faster; then what lies between is halved.
        """
        best, wanted = tries.fastest, self._request.recompute
        is_open = wanted.policy == "auto" and wanted.blocks is None
        if best is None or not is_open or not self._is_whole or self._order.first_only:
            return tries
        plan = best.answer.plan
        if best.policy not in POLICIES or plan is None or plan.stages[0].recompute is None:
            return tries
        if self._is_short_of_memory(best.answer):
            return tries
        axes, more = len(plan.stages[0].mesh.axes), list[Trial]()
        left, too_few = len(plan.stages[0].recompute.segments), 0
        least = fewer = max(1, left // FEWER)
        while left - too_few > least and len(more) < MOST_TRIES and not self._deadline.is_over():
            blocks = left - fewer if left - fewer > too_few else (left + too_few) // 2
            answer = self._planned(best.policy, best.microbatches, axes, inf, blocks)
            more.append(Trial(best.policy, best.microbatches, answer, blocks=blocks))
            gain = 1 - more[-1].step_ns / best.step_ns
            if 0 < gain < FEWER_GAIN * (left - blocks) / left:
                break
            if gain > 0:
                best, left, fewer = more[-1], blocks, 2 * fewer
            else:
                too_few = blocks
        return PolicyTrials([*tries.tries, *more])

    def _is_enough(self, tries: PolicyTrials) -> bool:
        """Whether no further plan is asked for, or worth a trial beside the known plan."""
        return tries.has_plan and (
            self._order.first_only or tries.hoped_ns > FAR_BEHIND * self._order.beaten_ns
        )

    def _planned(
        self,
        policy: RecomputePolicy,
        count: int,
        axes: int,
        worth: float | None = None,
        blocks: int | None = None,
    ) -> Answer:
        """blocks: the number of blocks that recompute, None for all or those of the request."""
        begun = self._order.begun
        known = None if begun is None or worth is not None else begun.answer_of(policy, count)
        recompute = self._variants.recompute(policy, count, blocks)
        return self._plan(recompute, count, axes, worth, known)

    def priced(self, policy: RecomputePolicy, most: int) -> list[FoldedPlan]:
        """Plans along the price of memory, as `price_stage` describes them."""
        (count,) = microbatch_counts(self._request)
        recompute = self._variants.recompute(policy, count)
        cursor = self._variants.folding(recompute)
        while True:
            try:
                room = Room(self._position.spare_bytes)
                spaces = self._spaces(cursor.folding, count, recompute, room)
                candidates = self._candidates(self._request.budget.max_axes)
                return plans_along_prices(spaces, candidates, most)
            except NotAlikeError:
                cursor.fold_less()

    def _is_short_of_memory(self, answer: Answer) -> bool:
        """Whether more memory could make a difference, and time remains to search for it."""
        if self._deadline.is_over():
            return False
        if answer.plan is None:
            return answer.infeasible is not None and answer.infeasible.constraint == "memory"
        use = answer.plan.cost.memory_bytes
        return use.total > FULL * use.capacity

    def _add_op_by_op(self, count: int, plain: Answer, tries: PolicyTrials) -> None:
        """Add plans that recompute more and more ops. plain: the answer with none."""

        def step_ns(recompute: RecomputedOps) -> float:
            axes = self._request.budget.max_axes
            answer = self._plan(recompute, count, axes) if recompute else plain
            if recompute:
                tries.add("ops", count, answer, len(recompute.again))
            return inf if answer.plan is None else answer.plan.cost.step_ns

        blocks = self._request.recompute.blocks
        rungs = ladder(*self._variants.original(count), blocks, self._position.blocks)
        descend(rungs, step_ns, lambda: not self._deadline.is_over())

    def _plan(
        self,
        recompute: RecomputedOps,
        count: int,
        axes: int,
        worth: float | None = None,
        known: Answer | None = None,
    ) -> Answer:
        """The answer with these ops recomputed; computed once for policies that agree on them.

        worth: what a plan has to wait for a search with other shares; that of coarse meshes by
        default. known: the answer with the calibration's shares.
        """
        terms = count, recompute.again, frozenset(recompute.segment_of.items()), axes
        if terms not in self._answers:
            first = known or self._plan_within_memory(recompute, count, axes, None)
            if worth is None:
                worth = COARSE_WORTH if axes <= COARSE_AXES else inf
            answer = self._faster(first, recompute, count, axes, worth)
            if answer.plan is not None:
                self._fastest_ns = min(self._fastest_ns, answer.plan.cost.step_ns)
            self._answers[terms] = answer
            self._best.add(self._answers[terms])
            self._best.offer()
        return self._answers[terms]

    def _faster(
        self, first: Answer, recompute: RecomputedOps, count: int, axes: int, worth: float
    ) -> Answer:
        """The answer, or a faster one that counts other shares of traffic."""
        if not self._is_whole or worth == inf or self._deadline.is_over():
            return first
        if self._order.first_only:
            return first
        self._best.add(first)
        return faster_answer(
            first,
            lambda shares: self._plan_within_memory(recompute, count, axes, shares),
            worth,
            self._fastest_ns,
        )

    def _plan_within_memory(
        self, recompute: RecomputedOps, count: int, axes: int, shares: Exposed | None
    ) -> Answer:
        """shares: that the search counts, in place of the calibration's."""
        cursor = self._variants.folding(recompute)
        floors: Floors = {}

        def search(room: Room) -> Answer | MemoryMiss:
            while True:
                try:
                    spaces = self._spaces(cursor.folding, count, recompute, room, shares)
                    return self._search_meshes(spaces, axes, room, floors)
                except NotAlikeError:
                    cursor.fold_less()

        setup, device = self._request.setup, self._request.topology.device
        limit_bytes = device.memory_bytes * setup.usable_memory
        return plan_within_memory(search, limit_bytes, self._position.spare_bytes)

    def _spaces(
        self,
        folding: Folding,
        count: int,
        recompute: RecomputedOps,
        room: Room,
        shares: Exposed | None = None,
    ) -> MeshSpaces:
        problem = self._variants.problem(folding.graph, count, recompute, room)
        values = self._variants.values(problem)
        problem = replace(problem, counted=shares)
        return MeshSpaces(self._request, folding, problem, values, self._deadline)

    @uncollected
    def _search_meshes(
        self, spaces: MeshSpaces, most_axes: int, room: Room, floors: Floors
    ) -> Answer | MemoryMiss:
        """Search all meshes; those of fewer axes if the tables of all finer ones are too large."""
        by_objective = spaces.problem.counted is None
        if not by_objective:
            history = History(self._history.started)  # of other costs than the objective
        elif room != Room():
            history = self._history = History(self._history.started)  # earlier plans do not fit
        else:
            history = self._history
        progress = SearchProgress(history, self._report)

        def offer(outcomes: OutcomesSoFar) -> None:
            self._best(lambda: self._so_far(outcomes(), spaces, history))

        search = MeshSearch(
            spaces,
            progress,
            is_short=self._is_short,
            tolerance=self._position.tolerance if by_objective else LED_TOLERANCE,
            max_labels=self._position.max_labels,
            floors=floors,
            offer=offer if by_objective else lambda _: None,
        )
        searched: tuple[Mesh, ...] = ()
        for axes in range(most_axes, 0, -1):
            candidates = self._candidates(axes)
            if candidates == searched:
                continue
            searched = candidates
            outcomes = search.run(candidates)
            if any(outcome.left_out != TOO_LARGE for outcome in outcomes):
                return answer_of(outcomes, search, self._write)
        raise TooLarge(
            "the ops of this graph are too entangled for an exact search on any mesh of this "
            "topology. Pin some of them, which makes the search smaller",
            pointer="/graph",
        )

    def _so_far(
        self, outcomes: Sequence[MeshOutcome], spaces: MeshSpaces, history: History
    ) -> Answer | None:
        try:
            return answer_so_far(outcomes, spaces, history, self._write)
        except NotAlikeError:
            return None

    def _candidates(self, axes: int) -> tuple[Mesh, ...]:
        return self._position.meshes or meshes_of(self._request, axes)
