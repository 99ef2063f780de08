"""The search for pipelines: degrees first, then every stage.

    1. for every number of pipeline ranks and of microbatches, the whole graph on the devices of one
       rank, as coarse as its levels, in the memory of all ranks: what its ops take and hold
    2. for every schedule, cuts that balance these (`cuts.py`) and how long the schedule then
       takes (`passes.py`): an estimate of each configuration
    3. the most promising are planned stage by stage on coarse meshes, stages that are alike once,
       and judged (`price.py`)
    4. the best of them is planned again on the finest meshes: the answer

Every stage's plan keeps the memory of its devices with the microbatches that its place in the
schedule holds. The answer's bound is that of its work alone, for these cuts and this schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.calibrations import default_calibration
from meshwright.schema import (
    Answer,
    Calibration,
    Considered,
    Infeasible,
    InvalidInput,
    Progress,
    Request,
)
from solver.deadline import Deadline, Stop, never
from solver.mesh_outcome import TOLERANCE
from solver.pipeline.coarse import Coarse, coarse, coarsest_axes, within
from solver.pipeline.configurations import Configuration, configurations
from solver.pipeline.cuts import Room, balanced, moved
from solver.pipeline.document import document
from solver.pipeline.pace import Pace
from solver.pipeline.schedules import schedule
from solver.pipeline.stage_graph import Anatomy
from solver.pipeline.stage_plans import StagePlans, plan_stages_that_fit
from solver.pipeline.staged import Staged
from solver.stage_planner import Report, check, plan_stage, states_alone

_PLANNED = 4  # chosen: configurations that are planned stage by stage; about a second each
_COARSE_TOLERANCE = 1e-2  # chosen: of stages' plans that choose between configurations
_FAR_AHEAD = 1.1  # chosen: finer meshes seldom gain so much
_ALONE = 0.3  # chosen: of the time, the share for the plan without a pipeline
_ESTIMATING = 0.5  # chosen: of what is left then, the share for estimates
_MOST_TRIES = 600  # chosen: shifts of a configuration's cuts; twice the cuts of any published
_SHIFTING_NS = 5e7  # chosen: of the time that trying them may take
_SHOWN = 12  # chosen: considered configurations that a plan lists, those on the front besides


def plan_pipeline(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """The best plan found, or why there is none; raises MeshwrightError for bad input."""
    check_pipeline(request)
    return _PipelineSearch(request, report or (lambda _: None), stop).answer()


def check_pipeline(request: Request) -> None:
    """Raise what `plan_pipeline` would raise for bad input, but for pins that no rank can keep."""
    if request.setup.phase != "training":
        raise InvalidInput("pipelines are planned for training only", pointer="/pipeline")
    check(request)
    next(configurations(request, Anatomy(request.graph)), None)


@dataclass(slots=True)
class _Option:
    """A configuration, and what is known of it so far. refused: why it has no plan."""

    configuration: Configuration
    staged: Staged
    shares: tuple[float, ...]
    estimated_ns: float
    estimated_bytes: int
    plans: StagePlans | None = None
    refused: Infeasible | None = None

    @property
    def ns(self) -> float:
        return self.estimated_ns if self.plans is None else self.plans.ns

    @property
    def memory_bytes(self) -> int:
        if self.plans is None:
            return self.estimated_bytes
        return self.plans.priced.cost.memory_bytes.total

    def considered(self, best_ns: float, *, on_front: bool) -> Considered:
        why = f"{'estimated to take' if self.plans is None else 'takes'} "
        why += f"{self.ns / best_ns:.3f} times"
        if self.refused is not None:
            why = self.refused.detail
        return Considered(
            configuration=str(self.configuration),
            estimated_ns=self.estimated_ns,
            cost_ns=None if self.plans is None else self.plans.ns,
            memory_bytes=self.memory_bytes,
            on_front=on_front,
            why=why,
        )


def _considered(
    options: Sequence[_Option], best_ns: float, best_bytes: int
) -> tuple[Considered, ...]:
    """The fastest, and all for which nothing is at once as fast and smaller; the best plan's step
    and memory are of none of them."""
    found = []
    least = best_bytes
    for place, option in enumerate(sorted(options, key=lambda own: own.ns)):
        on_front = option.refused is None and option.memory_bytes < least
        if on_front:
            least = option.memory_bytes
        if on_front or place < _SHOWN:
            found.append(option.considered(best_ns, on_front=on_front))
    return tuple(found)


class _PipelineSearch:
    def __init__(self, request: Request, say: Report, stop: Stop) -> None:
        self.request = request
        self.say = say
        self.deadline = Deadline.after(request.budget.seconds, stop)
        self.calibration: Calibration = request.calibration or default_calibration()
        self.anatomy = Anatomy(request.graph)
        self.notes: list[str] = []
        self.refused: Infeasible | None = None
        self.tight: list[tuple[Configuration, Coarse]] = []

    def answer(self) -> Answer:
        impossible = states_alone(self.request)
        if impossible is not None:
            return Answer(infeasible=impossible)
        single = self._alone(self._coarsest)
        found = list(self._options()) or self._tight_options()
        options = sorted(found, key=lambda own: own.estimated_ns)
        promising = self._planned(options)
        single = self._alone_at_its_best(single, promising)
        if not promising:
            if single is not None:
                return single
            return Answer(
                infeasible=_closest(options) or self.refused or _nothing_fits(self.request)
            )
        best = promising[0]
        self._refine(best)
        assert best.plans is not None
        if single is not None and single.plan is not None:
            if single.plan.cost.step_ns <= best.plans.ns:
                return self._with_considered(single, options)
            ms = single.plan.cost.step_ns / 1e6
            self.notes.append(f"without a pipeline a step takes {ms:.1f} ms")
        others = _considered(
            [own for own in options if own is not best], best.ns, best.memory_bytes
        )
        plan = document(self.request, best.staged, best.plans, others, self.notes)
        return Answer(plan=plan)

    def _with_considered(self, single: Answer, options: list[_Option]) -> Answer:
        assert single.plan is not None
        cost = single.plan.cost
        others = _considered(options, cost.step_ns, cost.memory_bytes.total)
        search = single.plan.search.model_copy(update={"considered": others})
        plan = single.plan.model_copy(update={"search": search})
        return single.model_copy(update={"plan": plan})

    @property
    def _coarsest(self) -> int:
        """The axes of the coarsest mesh of all devices."""
        return coarsest_axes(self.request, self.request.topology)

    def _alone(self, axes: int) -> Answer | None:
        """Without a pipeline, on meshes of so many axes, where that is a choice."""
        if self.request.pipeline.ranks is not None or self.request.pipeline.cuts:
            return None
        self._say("no pipeline", 0, 1)
        own = within(_on_meshes(self.request, axes), self.deadline, _ALONE)
        return plan_stage(own, None, self.deadline.stop)

    def _alone_at_its_best(
        self, coarse_one: Answer | None, promising: Sequence[_Option]
    ) -> Answer | None:
        """Planned on the finest meshes too, unless pipelines on the coarsest are far ahead."""
        if coarse_one is None or self.request.budget.max_axes <= self._coarsest:
            return coarse_one
        if coarse_one.plan is not None:
            ns = coarse_one.plan.cost.step_ns
            far_ahead = bool(promising) and ns > _FAR_AHEAD * promising[0].ns
            if far_ahead or self.deadline.is_over():
                return coarse_one
        found = self._alone(self.request.budget.max_axes)
        if found is None or found.plan is None:
            return found if coarse_one.plan is None else coarse_one
        if coarse_one.plan is not None and coarse_one.plan.cost.step_ns < found.plan.cost.step_ns:
            return coarse_one
        return found

    def _options(self) -> Iterator[_Option]:
        """Every configuration that can be estimated."""
        wanted = list(configurations(self.request, self.anatomy))
        left = self.deadline.left_s()
        seconds = None if left is None else left * _ESTIMATING
        estimating = Deadline.after(seconds, self.deadline.stop)
        known: dict[tuple[int, int], Coarse | Infeasible | None] = {}
        for number, own in enumerate(wanted):
            key = own.ranks, own.microbatches
            if key not in known:
                if estimating.is_over() and known:
                    self.notes.append(f"{len(wanted) - number} configurations were not estimated")
                    return
                self._say(
                    f"{own.ranks} ranks, {own.microbatches} microbatches", number, len(wanted)
                )
                known[key] = coarse(self.request, self.anatomy, *key, estimating)
            found = known[key]
            if isinstance(found, Infeasible):
                detail = f"{own.ranks} pipeline ranks, {own.microbatches} microbatches: "
                detail += f"with the memory of all ranks together, {found.detail}"
                self.refused = found.model_copy(update={"detail": detail})
            elif found is not None:
                option = self._option(own, found)
                if option is not None:
                    yield option
                else:
                    self.tight.append((own, found))

    def _tight_options(self) -> list[_Option]:
        """Where no cuts seem to keep the memory: those that need least of it. Coarse plans need
        not be the ones that hold least, so that stages planned for it may fit."""
        found = [self._option(own, whole, tight=True) for own, whole in self.tight[:_PLANNED]]
        return [option for option in found if option is not None]

    def _option(self, own: Configuration, found: Coarse, *, tight: bool = False) -> _Option | None:
        order = schedule(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)
        staged = Staged(
            self.anatomy, self.request.topology, self.request.setup, self.calibration, order, ()
        )
        limit = self.request.topology.device.memory_bytes * (1 - self.request.setup.memory_reserve)
        cuts = own.cuts
        at = found.places
        if len(at) < order.stages - 1:
            at = np.arange(1, len(self.anatomy.order), dtype=np.int64)
        if cuts is None:
            cuts = balanced(
                found.weights.by_bytes(max(order.in_flight)) if tight else found.weights,
                at,
                found.send_ns * (0 if tight else own.microbatches),
                order.in_flight,
                np.inf if tight else limit / own.stages_per_rank,
            )
        if cuts is None:
            return None

        pace = Pace.of(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)

        def estimate(cuts: tuple[int, ...]) -> float:
            return found.step_ns(cuts, pace)

        if own.cuts is None and not tight:
            room = Room(found.weights, order.in_flight, limit / own.stages_per_rank)
            tries = min(_MOST_TRIES, int(_SHIFTING_NS / pace.run_ns))
            cuts, ns = moved(cuts, at, room, estimate, tries)
        else:
            ns = estimate(cuts)
        shares = found.shares(cuts, order, limit)
        held = found.most_bytes(cuts, order)
        reserved = self.request.topology.device.memory_bytes - limit
        return _Option(own, staged.with_cuts(cuts), shares, ns, round(held + reserved))

    def _planned(self, options: list[_Option]) -> list[_Option]:
        """The most promising that have a plan on coarse meshes, the best first."""
        planned: list[_Option] = []
        for tried, option in enumerate(options):
            best = min((own.plans.ns for own in planned if own.plans), default=np.inf)
            if tried >= _PLANNED and planned:
                break
            if planned and (self.deadline.is_over() or option.estimated_ns > 1.1 * best):
                break
            self._say(str(option.configuration), tried, _PLANNED)
            self._plan(option, self._levels(option))
            if option.plans is not None:
                planned.append(option)
            elif self.deadline.is_over():
                break
        return sorted(planned, key=lambda own: own.plans.ns if own.plans else np.inf)

    def _refine(self, option: _Option) -> None:
        axes = self.request.budget.max_axes
        if axes <= self._levels(option) or self.deadline.is_over():
            return
        coarse_plans = option.plans
        self._say(f"{option.configuration}, finest meshes", 0, 1)
        self._plan(option, axes)
        if option.plans is None or (coarse_plans and coarse_plans.ns <= option.plans.ns):
            option.plans, option.refused = coarse_plans, None

    def _plan(self, option: _Option, axes: int) -> None:
        is_final = axes == self.request.budget.max_axes
        found = plan_stages_that_fit(
            _on_meshes(self.request, axes),
            option.configuration,
            option.staged,
            option.shares,
            self.deadline,
            TOLERANCE if is_final else _COARSE_TOLERANCE,
        )
        if isinstance(found, Infeasible):
            option.plans, option.refused = None, found
        else:
            option.plans, option.refused = found, None

    def _levels(self, option: _Option) -> int:
        """The axes of the coarsest mesh of a stage."""
        return coarsest_axes(self.request, option.staged.parts[0].topology)

    def _say(self, phase: str, done: int, total: int) -> None:
        self.say(Progress(phase=phase, done=done, total=max(total, 1)))


def _on_meshes(request: Request, axes: int) -> Request:
    """The request for meshes of so many axes; what they are coarse for need not be simple."""
    update: dict[str, object] = {"max_axes": axes}
    if axes != request.budget.max_axes:
        update["simplicity"] = 0.0
    return request.model_copy(update={"budget": request.budget.model_copy(update=update)})


def _closest(options: Sequence[_Option]) -> Infeasible | None:
    """Of those that were planned and have no plan: which misses by least. Other cuts may fit."""

    def missed(why: Infeasible) -> float:
        if not why.needed_bytes or not why.available_bytes:
            return np.inf
        return why.needed_bytes / why.available_bytes

    refused = [(own.configuration, own.refused) for own in options if own.refused is not None]
    if not refused:
        return None
    configuration, why = min(refused, key=lambda own: missed(own[1]))
    by = ""
    if why.needed_bytes and why.available_bytes:
        by = f" misses by {(why.needed_bytes - why.available_bytes) / 2**30:.2f} GiB"
    detail = f"no configuration found fits; closest: {configuration}{by}: {why.detail}"
    return why.model_copy(update={"detail": detail})


def _nothing_fits(request: Request) -> Infeasible:
    return Infeasible(
        constraint="memory",
        detail=(
            "no configuration found fits: no cuts were found that keep the memory of the devices "
            f"({request.topology.device.memory_bytes / 2**30:.0f} GiB each); more pipeline ranks "
            "or more microbatches may do"
        ),
        available_bytes=request.topology.device.memory_bytes,
    )
