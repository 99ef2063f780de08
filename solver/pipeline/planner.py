"""The search for pipelines: degrees first, then every stage.

    1. for every number of pipeline ranks and of microbatches, the whole graph on the devices of one
       rank, as coarse as its levels, in the memory of all ranks: what its ops take and hold
    2. for every schedule, cuts that balance these (`cuts.py`) and how long the schedule then
       takes (`passes.py`): an estimate of each configuration
    3. the most promising are planned stage by stage (`solver.stage_planner`), stages that are alike
       once, and judged (`price.py`); the best of them is the answer

Every stage's plan keeps the memory of its devices with the microbatches that its place in the
schedule holds. The answer's bound is that of its stages: it holds for the cuts and the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costmodel.calibrations import default_calibration
from meshwright.schema import (
    Answer,
    Calibration,
    Infeasible,
    InvalidInput,
    Plan,
    Progress,
    Request,
    Schedule,
    Search,
    Stage,
)
from solver.deadline import Deadline, Stop, never
from solver.pipeline.alike import Alike
from solver.pipeline.coarse import Coarse, coarse
from solver.pipeline.configurations import Configuration, configurations
from solver.pipeline.cuts import balanced
from solver.pipeline.passes import Durations
from solver.pipeline.price import Priced, priced, step_ns
from solver.pipeline.schedules import schedule
from solver.pipeline.stage_graph import Anatomy
from solver.pipeline.staged import Staged
from solver.stage_planner import Place, Report, plan_stage

_PLANNED = 3  # chosen: configurations that are planned stage by stage; some seconds each


@dataclass(frozen=True, slots=True)
class _Estimate:
    configuration: Configuration
    staged: Staged
    shares: tuple[float, ...]
    ns: float


def plan_pipeline(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """The best plan found, or why there is none; raises MeshwrightError for bad input."""
    return _PipelineSearch(request, report or (lambda _: None), stop).answer()


class _PipelineSearch:
    def __init__(self, request: Request, say: Report, stop: Stop) -> None:
        if request.setup.phase != "training":
            raise InvalidInput("pipelines are planned for training only", pointer="/pipeline")
        self.request = request
        self.say = say
        self.stop = stop
        self.deadline = Deadline.after(request.budget.seconds, stop)
        self.calibration: Calibration = request.calibration or default_calibration()
        self.anatomy = Anatomy(request.graph)
        self.best: tuple[Priced, Configuration, list[Plan]] | None = None
        self.notes: list[str] = []
        self.refused: Infeasible | None = None

    def answer(self) -> Answer:
        wanted = list(configurations(self.request, self.anatomy))
        estimates = sorted(self._estimates(wanted), key=lambda own: own.ns)
        single = self._alone()
        for number, estimate in enumerate(estimates[:_PLANNED]):
            if self.deadline.is_over() and self.best is not None:
                self.notes.append(f"{len(estimates) - number} more configurations were not planned")
                break
            self.say(_progress(str(estimate.configuration), number, _PLANNED))
            self._plan(estimate)
        if self.best is None:
            if single is not None:
                return single
            refused = self.refused or _nothing_fits(self.request)
            return Answer(infeasible=refused)
        found, configuration, plans = self.best
        if single is not None and single.plan is not None:
            if single.plan.cost.step_ns <= found.cost.step_ns:
                return single
            self.notes.append(
                f"without a pipeline a step takes {single.plan.cost.step_ns / 1e6:.1f} ms"
            )
        return Answer(plan=self._document(found, configuration, plans))

    def _alone(self) -> Answer | None:
        """Without a pipeline, where that is a choice."""
        if self.request.pipeline.ranks is not None:
            return None
        self.say(_progress("no pipeline", 0, 1))
        return plan_stage(self.request, None, self.stop)

    def _estimates(self, wanted: list[Configuration]) -> Iterator[_Estimate]:
        known: dict[tuple[int, int], Coarse | None] = {}
        for number, own in enumerate(wanted):
            key = own.ranks, own.microbatches
            if key not in known:
                if self.deadline.is_over() and known:
                    self.notes.append(f"{len(wanted) - number} configurations were not estimated")
                    return
                self.say(_progress(str(own), number, len(wanted)))
                known[key] = coarse(self.request, self.anatomy, *key, self.stop)
            found = known[key]
            if found is not None:
                estimate = self._estimate(own, found)
                if estimate is not None:
                    yield estimate

    def _estimate(self, own: Configuration, found: Coarse) -> _Estimate | None:
        order = schedule(own.schedule, own.ranks, own.microbatches, own.stages_per_rank)
        staged = Staged(
            self.anatomy, self.request.topology, self.request.setup, self.calibration, order, ()
        )
        limit = self.request.topology.device.memory_bytes * (1 - self.request.setup.memory_reserve)
        cuts = own.cuts
        if cuts is None:
            cuts = balanced(
                found.weights,
                found.places,
                found.send_ns * own.microbatches,
                order.in_flight,
                limit / own.stages_per_rank,
            )
        if cuts is None:
            self.notes.append(f"{own}: no cuts keep the memory of a device")
            return None
        passes, transfers = found.passes(cuts)
        durations = Durations(
            np.array([one.forward_ns for one in passes]),
            np.array([one.inputs_ns for one in passes]),
            np.array([one.weights_ns for one in passes]),
            np.stack([transfers, transfers]),
        )
        shares = found.shares(cuts, order)
        ns = step_ns(order, passes, durations)
        return _Estimate(own, staged.with_cuts(cuts), shares, ns)

    def _plan(self, estimate: _Estimate) -> None:
        staged, stages, plans = estimate.staged, [], []
        alike = Alike()
        for number, graph in enumerate(staged.graphs):
            share = estimate.shares[number]
            request = staged.request(self.request, number, share)
            held = staged.schedule.in_flight[number]
            found = alike.find(graph, request)
            if found is None:
                left = self.deadline.left_s()
                if left is not None:
                    seconds = max(left / (len(staged.graphs) - number), 0.01)
                    budget = request.budget.model_copy(update={"seconds": seconds})
                    request = request.model_copy(update={"budget": budget})
                place = Place(held, staged.link if number else None)
                answer = plan_stage(request, None, self.stop, place)
                if answer.plan is None:
                    why = answer.infeasible
                    assert why is not None
                    detail = f"stage {number} of {estimate.configuration}: {why.detail}"
                    self.notes.append(detail)
                    self.refused = self.refused or why.model_copy(update={"detail": detail})
                    return
                found = alike.add(graph, request, answer.plan)
            plans.append(found)
            stages.append(found.stages[0])
        judged = priced(staged, stages)
        self.notes.append(
            f"{estimate.configuration}: {judged.cost.step_ns / 1e6:.1f} ms a step "
            f"(estimated {estimate.ns / 1e6:.1f})"
        )
        if self.best is None or judged.cost.step_ns < self.best[0].cost.step_ns:
            self.best = judged, estimate.configuration, plans

    def _document(self, found: Priced, own: Configuration, plans: list[Plan]) -> Plan:
        first = plans[0]
        bound = _bound(found, plans)
        return Plan(
            name=self.request.graph.name,
            graph=self.request.graph.id,
            topology=self.request.topology.id,
            setup=self.request.setup.id,
            calibration=self.calibration.id,
            microbatches=own.microbatches,
            stages=found.stages,
            schedule=Schedule(
                kind=own.schedule, ranks=own.ranks, stages_per_rank=own.stages_per_rank
            ),
            cost=found.cost,
            search=Search(
                solver=self.request.solver,
                found_by=first.search.found_by,
                outcome="feasible",
                cost_ns=found.cost.step_ns,
                lower_bound_ns=bound,
                gap=(found.cost.step_ns - bound) / found.cost.step_ns,
                meshes=tuple(dict.fromkeys(m for plan in plans for m in plan.search.meshes)),
            ),
            repeated_work=max(plan.repeated_work for plan in plans),
            unknown_kinds=tuple(sorted({k for plan in plans for k in plan.unknown_kinds})),
            pins=tuple(pin.model_dump(mode="json") for pin in self.request.pins),
            padding=tuple(dict.fromkeys(p for plan in plans for p in plan.padding)),
            notes=(*self.notes, *dict.fromkeys(n for plan in plans for n in plan.notes)),
        )


def _bound(found: Priced, plans: list[Plan]) -> float:
    """No stages of these cuts are faster: the rank with the most to do, by its stages' bounds."""
    by_rank: dict[int, float] = {}
    for stage, plan in zip(found.stages, plans, strict=True):
        received = plan.search.cost_ns - _busy_ns(stage, plan)
        own = plan.search.lower_bound_ns - received
        by_rank[stage.pipeline_rank] = by_rank.get(stage.pipeline_rank, 0.0) + own
    return max(0.0, min(max(by_rank.values()), found.cost.step_ns))


def _busy_ns(stage: Stage, plan: Plan) -> float:
    passes = stage.passes
    assert passes is not None
    each = passes.forward_ns + passes.inputs_ns + passes.weights_ns
    return plan.microbatches * each + passes.step_ns


def _nothing_fits(request: Request) -> Infeasible:
    wanted = request.pipeline
    return Infeasible(
        constraint="memory",
        detail=(
            "no configuration of the pipeline asked for fits in the memory of the devices "
            f"({request.topology.device.memory_bytes / 2**30:.0f} GiB each); more pipeline ranks "
            f"than {wanted.ranks}, or more microbatches, may do"
        ),
        available_bytes=request.topology.device.memory_bytes,
    )


def _progress(phase: str, done: int, total: int) -> Progress:
    return Progress(phase=phase, done=done, total=max(total, 1))
