"""Conformance: whether a plan is one that its own wishes allow.

A plan document states in `wishes` what was asked for. Each wish is held against the plan:

    pins, module, constraints     the strategy of every op is one that these leave to it
    degrees                       so are the strategies and the mesh of a stated strategy
    optimizer_parallel, offload,  the state of every parameter at rest is one that these leave to
    sparse_gradients, zero        it, for the layout in which its readers need it
    elementwise_follow            no redistribution is made for an op that follows its input
    pipeline                      ranks, stages of a rank, schedule and cuts
    recompute                     policy, and the ops that it recomputes in so many blocks
    solver, budget                the search that found the plan, its meshes and its tolerance

The setup's number of microbatches and its `allow_all_to_all` are held too. The filters are those of
the search (`meshwright_solver.constraints.strategy_filters`,
`meshwright_solver.strategies.optimizer_sharding`), applied to the one strategy that the plan has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from meshwright.schema import (
    Calibration,
    Graph,
    InvalidInput,
    Mesh,
    Pin,
    Plan,
    PlanError,
    Request,
    Setup,
    Stage,
    Topology,
)
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.meshes import meshes_of
from meshwright_solver.constraints.pins import pinned_ops
from meshwright_solver.constraints.strategy_filters import Filters, StrategyRules, filters
from meshwright_solver.evaluation.accounting.assignment import Assignment, Codes
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.folding.mesh_outcome import shown
from meshwright_solver.lowering.elementwise_following import as_it_lies
from meshwright_solver.planning.degrees.degrees_planner import with_stated_terms
from meshwright_solver.planning.interleaving import with_copies
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue, find_values
from meshwright_solver.stage.engines.registry import portfolio_of
from meshwright_solver.stage.mesh_space import wished_at_rest
from meshwright_solver.stage.recompute import remade
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.offload import DEALT, DEALT_TOO, DEVICE, ROWS
from meshwright_solver.strategies.op_model import StrategyFilter
from meshwright_solver.strategies.sparse_tables import with_sparse_tables

ROUNDING = 1e-9  # chosen: the same sums in another order


def wished_request(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Request:
    """The request that a plan says it answers, in the terms in which a search has it.

    Raises PlanError where the documents cannot be asked for with the plan's wishes.
    """
    try:
        request = Request(
            graph=graph,
            topology=topology,
            setup=setup,
            calibration=calibration,
            **dict(plan.wishes),
        )
        if setup.copies == "auto":
            request = with_copies(request, plan.copies or 1)
        request = with_sparse_tables(request)
        return request if request.degrees is None else with_stated_terms(request)
    except InvalidInput as error:
        raise PlanError(f"the plan's wishes do not fit its documents: {error.detail}") from None


def check_wishes(plan: Plan, request: Request) -> None:
    """Raise PlanError where a plan as a whole is not what its request asks for.

    request: of `wished_request`.
    """
    for wish, wanted, found in _plan_terms(plan, request):
        if wanted is not None and wanted != found:
            raise _broken(wish, wanted, f"the plan has {found}")
    _check_cuts(plan, request)
    search, tolerance = plan.search, request.budget.simplicity
    cheapest_ns = search.cost_ns - search.simplicity_ns
    if search.simplicity_ns > tolerance * cheapest_ns + ROUNDING * search.cost_ns:
        found = f"the plan costs {search.simplicity_ns} ns more than {cheapest_ns} ns"
        raise _broken("budget.simplicity", tolerance, found)


def _plan_terms(plan: Plan, request: Request) -> Iterator[tuple[str, object, object]]:
    """Field, what is wanted (None: anything) and what the plan has."""
    order, pipeline = plan.schedule, request.pipeline
    yield "setup.microbatches", request.setup.microbatches, plan.microbatches
    yield "pipeline.ranks", pipeline.ranks, 1 if order is None else order.ranks
    if order is not None:
        yield "pipeline.schedule", pipeline.schedule, order.kind
        yield "pipeline.stages_per_rank", pipeline.stages_per_rank, order.stages_per_rank
    sole = portfolio_of(request.solver).sole
    yield "solver", None if sole is None else sole.name, plan.search.found_by


def _check_cuts(plan: Plan, request: Request) -> None:
    if not request.pipeline.cuts:
        return
    if len(plan.stages) != len(request.pipeline.cuts) + 1:
        found = f"the plan has {len(plan.stages)} stages"
        raise _broken("pipeline.cuts", ", ".join(request.pipeline.cuts), found)
    for number, (cut, before) in enumerate(
        zip(request.pipeline.cuts, plan.stages, strict=False), 1
    ):
        if cut not in {own.op for own in plan.stages[number].ops}:
            raise _broken("pipeline.cuts", cut, f"stage {number} does not have the op {cut!r}")
        if cut in {own.op for own in before.ops}:
            raise _broken("pipeline.cuts", cut, f"stage {number - 1} has the op {cut!r} too")


def check_stage_wishes(problem: Problem, stage: Stage, request: Request, where: str) -> None:
    """Raise PlanError where a stage is not what its request asks for.

    problem, request: of and for the stage alone.
    """
    _check_mesh(stage.mesh, request, where)
    _check_recompute(problem, stage, request, where)
    own = problem.of_stage(stage)
    models = Models.of_stage(problem, stage)
    assignment = assignment_of_stage(models, stage)
    try:
        pins = pinned_ops(own, request.pins, models.values.views)
        given = filters(own, request, pins, models.values, stage.mesh)
    except InvalidInput as error:
        raise PlanError(f"the plan's wishes do not fit its documents: {error.detail}") from None
    models.followers = given.followers
    models.at_rest = wished_at_rest(request, stage.mesh)
    models.forget_parameters()
    _Conformance(models, assignment, stage, request, pins, given, where).check()


def _check_mesh(mesh: Mesh, request: Request, where: str) -> None:
    try:
        known = [own for axes in range(1, request.budget.max_axes + 1)
                 for own in meshes_of(request, axes)]  # fmt: skip
    except InvalidInput as error:
        raise PlanError(f"the plan's wishes do not fit its documents: {error.detail}") from None
    if mesh in known:
        return
    found = f"{where}the mesh is {shown(mesh)}"
    if request.degrees is not None:
        raise _broken("degrees", f"{request.degrees}", f"{found}, not {shown(known[0])}")
    raise _broken("budget.max_axes", request.budget.max_axes, found)


def _check_recompute(problem: Problem, stage: Stage, request: Request, where: str) -> None:
    """The policy, and the ops that it recomputes in as many blocks as are asked for.

    Which ops the policy `ops` recomputes is a matter of the price of memory: any of them may be.
    """
    asked, done = request.recompute, RecomputedOps.of(stage.recompute)
    if asked.policy == "auto":
        return
    if done and done.policy != asked.policy:
        raise _broken("recompute.policy", asked.policy, f"{where}the plan has {done.policy!r}")
    if asked.policy == "ops":
        return
    given = replace(problem, remade=NOTHING)
    wanted = remade(given, find_values(given), asked.policy, asked.blocks)
    different = sorted(wanted.again ^ done.again)
    if different:
        blocks = "" if asked.blocks is None else f" in {asked.blocks} blocks"
        is_done = "recomputes" if different[0] in done.again else "does not recompute"
        found = f"{where}the plan {is_done} {different[0]!r}"
        raise _broken("recompute", f"{asked.policy}{blocks}", found)


def _broken(wish: str, wanted: object, found: str) -> PlanError:
    return PlanError(
        f"the plan breaks its wish {wish} {wanted}: {found}. Plan the request again with this wish"
    )


@dataclass(frozen=True, slots=True)
class _Conformance:
    """One stage as its wishes see it. models: with what the request allows of parameters."""

    models: Models
    assignment: Assignment
    stage: Stage
    request: Request
    pins: Mapping[int, Pin]
    given: Filters
    where: str

    def check(self) -> None:
        self._check_ops()
        self._check_parameters()
        if self.given.followers:
            self._check_followers()

    def _check_ops(self) -> None:
        for position, keep in self.given.all.items():
            model = self.models.ops.model(position)
            row = (model.choices == self.assignment.ops[position]).all(axis=1)
            if not (keep(model, model.choices) & row).any():
                raise _broken(*self._wish(position, keep, row), self._strategy(position))

    def _wish(self, position: int, keep: StrategyFilter, row: np.ndarray) -> tuple[str, object]:
        """The field that rules a strategy out, and what it says."""
        if isinstance(keep, StrategyRules):
            field = keep.first_broken(self.models.ops.model(position), row)
            return field, _said(self.request, field)
        pin = self.pins[position]
        if pin in self.request.pins:
            return f"pins[{self.request.pins.index(pin)}]", f"{str(pin)!r}"
        name = self.models.problem.ops[position].name
        return (f"graph.ops[{name!r}].strategy" if pin.op == name else "setup.dataset"), f"{pin}"

    def _strategy(self, position: int) -> str:
        name = self.models.problem.ops[position].name
        planned = next(own for own in self.stage.ops if own.op == name)
        said = ", ".join(f"{part}={'+'.join(axes)}" for part, axes in planned.strategy.items())
        return f"{self.where}op {name!r} has the strategy {said or 'none'}"

    def _check_parameters(self) -> None:
        for root, codes in self.assignment.parameters.items():
            value, row = self.models.values.value_of[root], np.array([codes])
            model = self.models.parameter(value)
            known = (model.states == row).all(axis=1)
            needed = np.array(self._needed(value))
            if not known.any() or model.request_forbids(model.states, needed)[known].any():
                wish = self._wish_of_rest(int(model.place(row)[0]))
                raise _broken(wish, _said(self.request, wish), self._rest(root))

    def _needed(self, value: ProblemValue) -> list[Codes]:
        """The states in which readers need a parameter, or the one that they share."""
        read = self.assignment.read.get(value.root)
        if read is not None:
            return [read.codes]
        return [tuple(self._required(reader)[0].tolist()) for reader in value.readers]

    def _required(self, reader: Reader) -> IntArray:
        position, port = reader
        model = self.models.ops.model(position)
        return model.required(np.array([self.assignment.ops[position]]), port)

    def _wish_of_rest(self, place: int) -> str:
        if place == ROWS:
            return "constraints.sparse_gradients"
        if place in (DEALT, DEALT_TOO):
            return "constraints.optimizer_parallel"
        if place != DEVICE:
            return "constraints.offload"
        return "degrees" if self.request.degrees is not None else "constraints.optimizer_parallel"

    def _rest(self, root: str) -> str:
        planned = next(own for own in self.stage.parameters if own.tensor == root)
        kept = {
            "value": planned.value,
            "gradient": planned.gradient,
            "optimizer state": planned.optimizer,
        }
        lies = ", ".join(f"{what} {layout}" for what, layout in kept.items() if layout is not None)
        host = f", {' and '.join(planned.on_host)} on the host" if planned.on_host else ""
        dealt = f", {' and '.join(planned.owned)} on one owner" if planned.owner else ""
        sparse = ", a sparse gradient" if planned.sparse_gradient else ""
        return f"{self.where}parameter {root!r} has its {lies}{host}{dealt}{sparse}"

    def _check_followers(self) -> None:
        """A follower takes its input as it lies, wherever one of its strategies can."""
        values = self.models.values
        for position, port in self.given.followers.items():
            op = self.models.problem.ops[position]
            value = values.value_of[op.inputs[port].tensor]
            slots, rest = len(value.slots), self.assignment.rest[value.root]
            read = self.assignment.read.get(value.root)
            given = np.array([rest if read is None else read.codes])
            if (given > slots).any() or self._lies(given, self._required((position, port)), slots):
                continue  # a partial value is reduced for any reader
            if as_it_lies(given, self._possible(position, port), slots).any():
                found = f"{self.where}op {op.name!r} takes {value.root!r} redistributed"
                raise _broken("constraints.elementwise_follow", "true", found)

    def _lies(self, given: IntArray, needed: IntArray, slots: int) -> bool:
        return bool(as_it_lies(given, needed, slots).all())

    def _possible(self, position: int, port: int) -> IntArray:
        model, keep = self.models.ops.model(position), self.given.all.get(position)
        kept = model.choices if keep is None else model.choices[keep(model, model.choices)]
        return model.required(kept, port)


def _said(request: Request, field: str) -> object:
    """What a request says in a field."""
    found: object = request
    for name in field.split("."):
        found = getattr(found, name)
    return found
