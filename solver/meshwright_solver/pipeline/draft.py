"""Drafts: plans of the whole graph on the devices of one rank.

- A draft for the best case of configurations has unlimited memory.
- Any other draft has the memory of all ranks, and the microbatches in flight of one rank: its plans
  fit if every rank has an equal share of the graph. It has several plans along the price of memory
  (`meshwright_solver.stage.memory_tradeoff`).
- If the request needs a search other than elimination, the draft has one plan, from the stage
  search; also if none of these fits, and no other draft does.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.schema import (
    Infeasible,
    InvalidInput,
    Pin,
    RecomputePolicy,
    Request,
    RequestError,
    Topology,
    step_batch,
)
from meshwright.schema.dim_cuts import Cuts, axes_of, counts_of
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.deadline import Deadline, OutOfTime
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.pipeline.cost_only_plan import Sketches
from meshwright_solver.pipeline.cuts import crossing_bytes, places
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.plan_items import OpLocator, profile_of_plan
from meshwright_solver.pipeline.rank_placement import RankShare, parts_of
from meshwright_solver.pipeline.stage_cost import split_passes, whole_passes
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.search.core.outcome import TableTooLarge
from meshwright_solver.stage.engines.registry import portfolio_of
from meshwright_solver.stage.request_check import check
from meshwright_solver.stage.stage_planner import plan_stage, price_stage
from meshwright_solver.stage.stage_position import StagePosition

_LEAST_S = 0.01  # chosen: a budget must be positive
_TOLERANCE = 1e-2  # chosen: enough for an estimate
_MOST_LABELS = 50_000  # chosen: some tenths of a second
_MOST_VERTICES = 6  # chosen: neighbors then differ by few per cent; each takes some 30 ms
_ANY_BYTES = 2**60  # more than any plan takes

Drafted = tuple[DraftPlan, ...] | Infeasible | None  # () if tables on these meshes are too large


@dataclass(frozen=True, slots=True)
class Draft:
    """The parameters of a draft on one rank of a share.

    groups: those of the pipeline, whose memory together limits the draft; empty for one plan
    without a limit. policy: of recomputation. held: microbatches in flight. axes: of the finest
    mesh. is_thorough: whether the stage search looks for a plan where no price of memory finds one.
    """

    share: RankShare
    groups: tuple[int, ...]
    policy: RecomputePolicy
    microbatches: int
    held: float
    axes: int
    is_thorough: bool = False

    def on(self, topology: Topology) -> Topology:
        """The topology of one rank, with the memory of all ranks."""
        (part, *_) = parts_of(topology, (self.share,))
        every = [topology.groups[number] for number in self.groups]
        pool = sum(group.device.memory_bytes * group.device_count for group in every)
        memory = pool // part.topology.device_count if self.groups else _ANY_BYTES
        device = part.topology.device.model_copy(update={"memory_bytes": memory})
        return part.topology.model_copy(update={"device": device})


@uncollected
def plan_draft(request: Request, anatomy: Anatomy, draft: Draft, deadline: Deadline) -> Drafted:
    """The draft plans from the fastest to the leanest, or the reason why none fits.

    None if the graph does not divide into these microbatches, if no price of memory makes a plan
    fit, or if the time is over. Pins that the devices of a rank cannot satisfy, or whose level has
    a single unit there, make the draft infeasible if the number of ranks is open. If the request
    states it, the former raise RequestError.
    """
    part = draft.on(request.topology)
    whole_on_rank = request.model_copy(
        update={
            "topology": part,
            "setup": request.setup.model_copy(update={"microbatches": draft.microbatches}),
            "recompute": request.recompute.model_copy(update={"policy": draft.policy}),
            "budget": request.budget.model_copy(update={"max_axes": draft.axes, "simplicity": 0.0}),
        }
    )
    used_up = _exhausted_levels(request, part, draft.share)
    if used_up and request.pipeline.ranks is None:
        return Infeasible(constraint="pins", detail=f"a pin needs axes of its level{used_up}")
    try:
        plans = _plans(whole_on_rank, anatomy, draft, deadline)
    except RequestError as wrong:
        refusal = RequestError(wrong.detail + used_up, pointer=wrong.pointer)
        if request.pipeline.ranks is not None:
            raise refusal from wrong
        return Infeasible(constraint="pins", detail=refusal.detail)
    except InvalidInput:
        if request.setup.microbatches is not None:
            raise
        return None  # the graph cannot run with so small a batch
    except OutOfTime:
        return None
    if plans is None or isinstance(plans, Infeasible):
        return plans
    return _draft_plans(request, anatomy, draft, plans)


def _plans(
    request: Request, anatomy: Anatomy, draft: Draft, deadline: Deadline
) -> list[FoldedPlan] | Infeasible | None:
    place = StagePosition(draft.held, tolerance=_TOLERANCE, max_labels=_MOST_LABELS)
    ways, policy = anatomy.foldings, draft.policy
    limited = within(request, deadline)
    if portfolio_of(request.solver).first.floor is not None:
        most = _MOST_VERTICES if draft.groups else 1
        try:
            plans = price_stage(limited, policy, place, ways, deadline, most)
            if plans:
                return plans if draft.groups else plans[:1]
            if not draft.is_thorough:
                return None
        except TableTooLarge:
            if draft.axes > coarsest_axes(request, request.topology):
                return []  # there are plans on coarser meshes
        except InvalidInput:
            check(limited)  # raises the error for the unfolded graph
            raise
    sketches = Sketches()
    answer = plan_stage(limited, None, deadline.stop, place, sketches.write, ways)
    if answer.plan is not None:
        return [sketches.of(answer.plan)]
    assert answer.infeasible is not None
    return answer.infeasible


def _draft_plans(
    request: Request, anatomy: Anatomy, draft: Draft, plans: list[FoldedPlan]
) -> tuple[DraftPlan, ...]:
    batch = step_batch(request.graph, request.setup)
    symbols = dict(request.setup.symbols)
    if batch is not None:
        symbols["batch"] = batch // draft.microbatches
    crossing = crossing_bytes(anatomy, symbols)
    at, locator = places(crossing), OpLocator(anatomy)
    drafts = []
    for folded in plans:
        whole = whole_passes(folded)
        profile, step_shares = profile_of_plan(folded, anatomy, locator, whole, draft.microbatches)
        drafts.append(
            DraftPlan(
                profile=profile,
                places=at,
                crossing_bytes=crossing,
                whole=whole,
                split=split_passes(folded),
                step_shares=step_shares,
                mesh=folded.models.mesh,
                policy=draft.policy,
                group=draft.share.group,
            )
        )
    return tuple(drafts)


def within(request: Request, deadline: Deadline, share: float = 1.0) -> Request:
    """The request with a share of the remaining time as its budget."""
    remaining_s = deadline.left_s()
    if remaining_s is None:
        return request
    budget = request.budget.model_copy(update={"seconds": max(remaining_s * share, _LEAST_S)})
    return request.model_copy(update={"budget": budget})


def on_meshes(request: Request, axes: int, *, is_final: bool) -> Request:
    """The request for meshes of so many axes, without simplicity unless it is final."""
    update: dict[str, object] = {"max_axes": axes}
    if not is_final:
        update["simplicity"] = 0.0
    return request.model_copy(update={"budget": request.budget.model_copy(update=update)})


def coarsest_axes(request: Request, part: Topology) -> int:
    """The axes of the coarsest mesh of a part; of the finest if pins need axes below levels."""
    levels = {level.name for group in request.topology.groups for level in group.levels}
    for pin in request.pins:
        if not _axes_named(pin) <= levels or any(counts_of(cuts) for cuts in _cuts(pin)):
            return request.budget.max_axes
    return max(1, sum(level.size > 1 for level in part.levels))


def _cuts(pin: Pin) -> list[Cuts]:
    return [cuts for cuts in (*(pin.inputs or ()), *(pin.outputs or ())) if cuts is not None]


def _axes_named(pin: Pin) -> set[str]:
    """The axes that a pin names."""
    named = {axis for axes in (pin.strategy or {}).values() for axis in axes}
    return named | {axis for cuts in _cuts(pin) for axis in axes_of(cuts)}


def _exhausted_levels(request: Request, part: Topology, share: RankShare) -> str:
    """A hint on levels in pins of which one rank has a single unit; empty without any."""
    named = {axis for pin in request.pins for axis in _axes_named(pin)}
    sizes = {level.name: level.size for level in part.levels}
    gone = [
        level.name
        for level in request.topology.groups[share.group].levels
        if level.size > 1 and level.name in named and sizes.get(level.name, 1) == 1
    ]
    if not gone:
        return ""
    levels = " and ".join(repr(name) for name in gone)
    return f"; {share.ranks} pipeline ranks use up level {levels}: fewer ranks leave some of it"
