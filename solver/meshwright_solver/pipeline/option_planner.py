"""The planner of options' stages: on coarse meshes to choose an option, then on the finest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from math import inf

from meshwright.schedules.kinds import schedule
from meshwright.schema import Infeasible
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.candidates import Option
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import on_meshes
from meshwright_solver.pipeline.drafts import Drafts, Say
from meshwright_solver.pipeline.reduce_recompute import RecomputeReduction
from meshwright_solver.pipeline.stage_plans import StageWishes, plan_stages_that_fit
from meshwright_solver.pipeline.stage_problems import Staged

COARSE_TOLERANCE = 1e-2  # chosen: gap of stages' plans that choose between configurations
AS_GOOD = 1.03  # measured: gpt3-175b on 1,024 A100, estimates up to 3.6 % off
_TOLERANCE = 3e-3  # chosen: gap of stages' plans in the answer


class OptionPlanner:
    """The planner of options; it returns new options with plans.

    report: called with an option before its plans are improved further.
    """

    def __init__(
        self,
        drafts: Drafts,
        deadline: Deadline,
        executor: Executor | None,
        *,
        say: Say,
        report: Callable[[Option], None],
    ) -> None:
        self.request = drafts.request
        self.drafts = drafts
        self.deadline = deadline
        self.executor = executor
        self.say = say
        self.report = report
        self.calibration = calibration_for(drafts.request)
        self._coarse: dict[Configuration, tuple[Option, Option]] = {}
        self._staged: dict[tuple[Configuration, tuple[int, ...]], Staged] = {}

    def coarse(self, option: Option, best_ns: float) -> Option:
        """The option, planned on the meshes of its estimate. best_ns: of options planned before.

        An option is planned once.
        """
        before, known = self._coarse.get(option.configuration, (None, None))
        if before is option and known is not None:
            return known
        planned = self._with_plans(option, option.axes, COARSE_TOLERANCE, best_ns)
        planned = self._without_recompute(planned, best_ns)
        if planned.plans is not None:
            self._coarse[option.configuration] = option, planned
        return planned

    def refined(self, option: Option) -> tuple[Option, tuple[str, ...]]:
        """The option, planned on the finest meshes, and notes on omitted meshes."""
        axes, notes = self.request.budget.max_axes, list[str]()
        if self.deadline.is_over():
            return option, ()
        if option.configuration.shares in self.drafts.coarse_only:
            axes = option.axes
            notes.append(f"meshes of more than {axes} axes were left out: large tables")
        self.say(f"{option.configuration}, finest meshes", 0, 1)
        fine = self._with_plans(option, axes, _TOLERANCE)
        margin = 1 + self.request.budget.simplicity
        is_coarse_better = fine.plans is None or (
            option.plans is not None and option.plans.ns * margin <= fine.plans.ns
        )
        if is_coarse_better:
            fine, axes = option, option.axes
        return self._with_less_recompute(fine, axes), tuple(notes)

    def staged(self, option: Option) -> Staged:
        """The stages of an option as planning problems."""
        configuration = option.configuration
        key = configuration, option.cuts
        if key not in self._staged:
            self._staged[key] = Staged(
                self.drafts.searches.shared.anatomy,
                self.request.topology,
                self.request.setup,
                self.calibration,
                schedule(*configuration.schedule_terms),
                option.cuts,
                configuration.placement,
            )
        return self._staged[key]

    def _without_recompute(self, option: Option, best_ns: float) -> Option:
        """The option without recomputation if that is faster.

        Stage searches with saved activations have choices that drafts do not cover.
        """
        first, *more = self.drafts.policies
        if option.policies == (first,):
            return option
        plainer = self.drafts.estimator.without(option, more)
        if plainer is None or plainer.estimated_ns > AS_GOOD * min(best_ns, option.ns):
            return option
        beaten_ns = min(best_ns, option.ns)
        planned = self._with_plans(plainer, plainer.axes, COARSE_TOLERANCE, beaten_ns)
        is_faster = planned.plans is not None and (option.plans is None or planned.ns < option.ns)
        return planned if is_faster else option

    def _with_less_recompute(self, option: Option, axes: int) -> Option:
        """The option with less recomputation in stages whose plans leave free memory."""
        if option.plans is None or self.request.recompute.policy != "auto":
            return option
        self.report(option)
        self.say(f"{option.configuration}, less done again", 0, 1)
        staged = self.staged(option)
        plans = RecomputeReduction(
            on_meshes(self.request, axes, is_final=True),
            staged,
            self._wishes(option, staged, axes, is_final=True),
            _TOLERANCE,
            self.deadline,
            self.executor,
        ).of(option.plans)
        return replace(option, plans=plans)

    def _with_plans(
        self, option: Option, axes: int, tolerance: float, best_ns: float = inf
    ) -> Option:
        """The option with the plans of its stages, or with the reason for none.

        best_ns: the step of a known plan. If the stages planned so far make a longer step likely,
        no others are planned.
        """
        is_final, staged = tolerance == _TOLERANCE, self.staged(option)
        stages = option.estimate.stages(option.cuts)
        plans = plan_stages_that_fit(
            on_meshes(self.request, axes, is_final=is_final),
            option.configuration,
            staged,
            self._wishes(option, staged, axes, is_final=is_final),
            self.deadline,
            tolerance,
            self.executor,
            lambda planned: stages.step_ns(planned) <= AS_GOOD * best_ns,
        )
        if isinstance(plans, Infeasible):
            return replace(option, plans=None, refused=plans)
        return replace(option, plans=plans, refused=None)

    def _wishes(self, option: Option, staged: Staged, axes: int, *, is_final: bool) -> StageWishes:
        wishes = option.wishes(staged.alike(self.request))
        if axes != option.axes:
            return replace(wishes, meshes=())
        if is_final:
            return replace(wishes, meshes=option.estimate.stages(option.cuts).every_mesh())
        return wishes
