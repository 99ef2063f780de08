"""Conformance of a plan to the wishes that it states.

The field `wishes` of a plan document repeats the wishes of the request. Each wish is checked
against the plan:

    pins, module, constraints     the strategy of every op is one that these allow
    degrees                       the same, and the mesh belongs to the stated degrees
    target                        the options of the framework state the whole plan
    optimizer_parallel, offload,  the state of every parameter at rest is one that these allow, for
    sparse_gradients, zero        the layout in which its readers need it
    elementwise_follow            an op that follows its input needs no redistribution of it
    pipeline                      ranks, stages of a rank, schedule and cuts
    recompute                     the policy, and the ops that it recomputes in so many blocks
    solver, budget                the search that found the plan, its meshes and its tolerance

The number of microbatches and `allow_all_to_all` of the setup are checked too. The filters are
those of the search (`meshwright_solver.constraints.strategy_filters`,
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
from meshwright_solver.constraints.pin_filters import stated_layouts
from meshwright_solver.constraints.pins import pinned_ops
from meshwright_solver.constraints.strategy_filters import Filters, StrategyRules, filters
from meshwright_solver.evaluation.accounting.assignment import Assignment, Codes
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.folding.mesh_outcome import shown
from meshwright_solver.lowering.elementwise_following import as_it_lies
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.planning.degrees.degrees_planner import with_stated_terms
from meshwright_solver.planning.interleaving import with_copies
from meshwright_solver.planning.open_ranks import with_ranks
from meshwright_solver.planning.stage_layers import with_stage_layers
from meshwright_solver.planning.target.strategies import stated_request
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue, find_values
from meshwright_solver.stage.engines.registry import portfolio_of
from meshwright_solver.stage.mesh_space import wished_at_rest
from meshwright_solver.stage.recompute import remade
from meshwright_solver.stage.recompute.blocks import BlockNames
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.offload import DEALT, DEALT_TOO, DEVICE, ROWS
from meshwright_solver.strategies.op_model import StrategyFilter
from meshwright_solver.strategies.sparse_tables import with_sparse_tables

ROUNDING = 1e-9  # chosen: the same sums in another order


def wished_request(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Request:
    """The request that the wishes of a plan describe, with the terms that the search uses.

    Raises PlanError where the documents do not fit the wishes.
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
        request = with_stage_layers(with_sparse_tables(request))
        if request.target is not None:
            request = stated_request(plan, request)
        return request if request.degrees is None else with_stated_terms(with_ranks(request))
    except InvalidInput as error:
        raise PlanError(f"the plan's wishes do not fit its documents: {error.detail}") from None


def check_wishes(plan: Plan, request: Request, staged: Staged | None = None) -> None:
    """Raise PlanError where the plan as a whole breaks a wish.

    request: the result of `wished_request`. staged: the stage problems of a plan with several
    stages, else None.
    """
    for wish, wanted, actual in _plan_terms(plan, request):
        if wanted is not None and wanted != actual:
            raise _broken_wish(wish, wanted, f"the plan has {actual}")
    _check_cuts(plan, request, staged)
    search, tolerance = plan.search, request.budget.simplicity
    cheapest_ns = search.cost_ns - search.simplicity_ns
    if search.simplicity_ns > tolerance * cheapest_ns + ROUNDING * search.cost_ns:
        difference = f"the plan costs {search.simplicity_ns} ns more than {cheapest_ns} ns"
        raise _broken_wish("budget.simplicity", tolerance, difference)


def _plan_terms(plan: Plan, request: Request) -> Iterator[tuple[str, object, object]]:
    """Field, wanted value (None: any) and the plan's value."""
    order, pipeline = plan.schedule, request.pipeline
    yield "setup.microbatches", request.setup.microbatches, plan.microbatches
    yield "pipeline.ranks", pipeline.ranks, 1 if order is None else order.ranks
    if order is not None:
        yield "pipeline.schedule", pipeline.schedule, order.kind
        yield "pipeline.stages_per_rank", pipeline.stages_per_rank, order.stages_per_rank
    sole = portfolio_of(request.solver).sole
    yield "solver", None if sole is None else sole.name, plan.search.found_by


def _check_cuts(plan: Plan, request: Request, staged: Staged | None) -> None:
    if not request.pipeline.cuts:
        return
    if len(plan.stages) != len(request.pipeline.cuts) + 1:
        difference = f"the plan has {len(plan.stages)} stages"
        raise _broken_wish("pipeline.cuts", ", ".join(request.pipeline.cuts), difference)
    assert staged is not None
    for number, (cut, place) in enumerate(zip(request.pipeline.cuts, staged.cuts, strict=True), 1):
        first = staged.anatomy.order[place].name
        if cut != first:
            raise _broken_wish("pipeline.cuts", cut, f"stage {number} begins with the op {first!r}")


def check_stage_wishes(
    problem: Problem,
    stage: Stage,
    request: Request,
    where: str,
    blocks: BlockNames | None = None,
) -> None:
    """Raise PlanError where a stage breaks a wish.

    problem, request: those of the stage alone. blocks: of the whole graph, for recomputation; None
    for the only stage.
    """
    _check_mesh(stage.mesh, request, where)
    _check_recompute(problem, stage, request, where, blocks)
    stage_problem = problem.of_stage(stage)
    models = Models.of_stage(problem, stage)
    assignment = assignment_of_stage(models, stage)
    try:
        pins = pinned_ops(stage_problem, request.pins, models.values.views)
        allowed = filters(stage_problem, request, pins, models.values, stage.mesh)
    except InvalidInput as error:
        raise PlanError(f"the plan's wishes do not fit its documents: {error.detail}") from None
    models.followers = allowed.followers
    models.stated = stated_layouts(models, pins)
    models.at_rest = wished_at_rest(request, stage.mesh)
    models.forget_parameters()
    _Conformance(models, assignment, stage, request, pins, allowed, where).check()


def _check_mesh(mesh: Mesh, request: Request, where: str) -> None:
    try:
        known = [
            candidate
            for axes in range(1, request.budget.max_axes + 1)
            for candidate in meshes_of(request, axes)
        ]
    except InvalidInput as error:
        raise PlanError(f"the plan's wishes do not fit its documents: {error.detail}") from None
    if mesh in known:
        return
    difference = f"{where}the mesh is {shown(mesh)}"
    if request.degrees is not None:
        raise _broken_wish("degrees", f"{request.degrees}", f"{difference}, not {shown(known[0])}")
    raise _broken_wish("budget.max_axes", request.budget.max_axes, difference)


def _check_recompute(
    problem: Problem, stage: Stage, request: Request, where: str, names: BlockNames | None
) -> None:
    """Check the recompute policy and the ops that it recomputes in the wished number of blocks.

    The policy `ops` may recompute any op: the price of memory decides which.
    """
    wish, done = request.recompute, RecomputedOps.of(stage.recompute)
    if wish.policy == "auto":
        return
    if done and done.policy != wish.policy:
        raise _broken_wish("recompute.policy", wish.policy, f"{where}the plan has {done.policy!r}")
    if wish.policy == "ops":
        return
    plain = replace(problem, remade=NOTHING)
    wanted = remade(plain, find_values(plain), wish.policy, wish.blocks, names, wish=wish)
    different = sorted(wanted.again ^ done.again)
    if different:
        blocks = "" if wish.blocks is None else f" in {wish.blocks} blocks"
        is_done = "recomputes" if different[0] in done.again else "does not recompute"
        difference = f"{where}the plan {is_done} {different[0]!r}"
        raise _broken_wish("recompute", f"{wish.policy}{blocks}", difference)


def _broken_wish(wish: str, wanted: object, difference: str) -> PlanError:
    return PlanError(
        f"the plan breaks its wish {wish} {wanted}: {difference}. "
        "Plan the request again with this wish"
    )


@dataclass(frozen=True, slots=True)
class _Conformance:
    """The checks of one stage.

    models: with the parameter states that the request allows.
    """

    models: Models
    assignment: Assignment
    stage: Stage
    request: Request
    pins: Mapping[int, Pin]
    filters: Filters
    where: str

    def check(self) -> None:
        self._check_ops()
        self._check_stated_layouts()
        self._check_parameters()
        if self.filters.followers:
            self._check_followers()

    def _check_ops(self) -> None:
        for position, keep in self.filters.all.items():
            model = self.models.ops.model(position)
            row = (model.choices == self.assignment.ops[position]).all(axis=1)
            if not (keep(model, model.choices) & row).any():
                raise _broken_wish(*self._wish(position, keep, row), self._strategy(position))

    def _wish(self, position: int, keep: StrategyFilter, row: np.ndarray) -> tuple[str, object]:
        """The field that rules out a strategy, and its value."""
        if isinstance(keep, StrategyRules):
            field = keep.first_broken(self.models.ops.model(position), row)
            return field, _field_value(self.request, field)
        pin = self.pins[position]
        if pin in self.request.pins:
            return f"pins[{self.request.pins.index(pin)}]", f"{str(pin)!r}"
        name = self.models.problem.ops[position].name
        return (f"graph.ops[{name!r}].strategy" if pin.op == name else "setup.dataset"), f"{pin}"

    def _strategy(self, position: int) -> str:
        name = self.models.problem.ops[position].name
        planned = next(op for op in self.stage.ops if op.op == name)
        parts = ", ".join(f"{part}={'+'.join(axes)}" for part, axes in planned.strategy.items())
        return f"{self.where}op {name!r} has the strategy {parts or 'none'}"

    def _check_stated_layouts(self) -> None:
        """Check that readers get partial sums as a pin states their reduction."""
        producer_of = self.models.problem.producer_of
        for root, stated in self.models.stated.items():
            read = self.assignment.read.get(root)
            rest = np.array([self.assignment.rest[root]])
            codes = None if read is None else np.array([read.codes])
            if codes is None or not stated.may_read(rest, codes).all():
                pin = self.pins[producer_of[root]]
                planned = next(tensor for tensor in self.stage.tensors if tensor.tensor == root)
                layout = planned.rest.value if planned.read is None else planned.read.value
                number = f"[{self.request.pins.index(pin)}]" if pin in self.request.pins else ""
                difference = f"{self.where}readers get {root!r} in the layout {layout}"
                raise _broken_wish(f"pins{number}", f"{str(pin)!r}", difference)

    def _check_parameters(self) -> None:
        for root, codes in self.assignment.parameters.items():
            value, row = self.models.values.value_of[root], np.array([codes])
            model = self.models.parameter(value)
            known = (model.states == row).all(axis=1)
            needed = np.array(self._states_of_readers(value))
            if not known.any() or model.request_forbids(model.states, needed)[known].any():
                wish = self._wish_of_rest(int(model.place(row)[0]))
                raise _broken_wish(wish, _field_value(self.request, wish), self._rest(root))

    def _states_of_readers(self, value: ProblemValue) -> list[Codes]:
        """The parameter states that the readers need, or the one that they share."""
        read = self.assignment.read.get(value.root)
        if read is not None:
            return [read.codes]
        return [tuple(self._state_of_reader(reader)[0].tolist()) for reader in value.readers]

    def _state_of_reader(self, reader: Reader) -> IntArray:
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
        planned = next(parameter for parameter in self.stage.parameters if parameter.tensor == root)
        layouts = {
            "value": planned.value,
            "gradient": planned.gradient,
            "optimizer state": planned.optimizer,
        }
        lies = ", ".join(
            f"{what} {layout}" for what, layout in layouts.items() if layout is not None
        )
        host = f", {' and '.join(planned.on_host)} on the host" if planned.on_host else ""
        dealt = f", {' and '.join(planned.owned)} on one owner" if planned.owner else ""
        sparse = ", a sparse gradient" if planned.sparse_gradient else ""
        return f"{self.where}parameter {root!r} has its {lies}{host}{dealt}{sparse}"

    def _check_followers(self) -> None:
        """Check that followers take their inputs without redistribution where a strategy can."""
        values = self.models.values
        for position, port in self.filters.followers.items():
            op = self.models.problem.ops[position]
            value = values.value_of[op.inputs[port].tensor]
            slots, rest = len(value.slots), self.assignment.rest[value.root]
            read = self.assignment.read.get(value.root)
            state = np.array([rest if read is None else read.codes])
            if (state > slots).any() or self._follows(
                state, self._state_of_reader((position, port)), slots
            ):
                continue  # a partial value is reduced for any reader
            if as_it_lies(state, self._possible(position, port), slots).any():
                difference = f"{self.where}op {op.name!r} takes {value.root!r} redistributed"
                raise _broken_wish("constraints.elementwise_follow", "true", difference)

    def _follows(self, state: IntArray, needed: IntArray, slots: int) -> bool:
        return bool(as_it_lies(state, needed, slots).all())

    def _possible(self, position: int, port: int) -> IntArray:
        model, keep = self.models.ops.model(position), self.filters.all.get(position)
        choices = model.choices if keep is None else model.choices[keep(model, model.choices)]
        return model.required(choices, port)


def _field_value(request: Request, field: str) -> object:
    """The value of a field of the request, by its dotted name."""
    value: object = request
    for name in field.split("."):
        value = getattr(value, name)
    return value
