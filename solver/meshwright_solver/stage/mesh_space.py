"""The search space of a request on one mesh: its models, its filters and its whole cost graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan

from meshwright.schema import Mesh, Request
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.constraints.degrees_mesh import shared_axes
from meshwright_solver.constraints.group_dims import check_groups
from meshwright_solver.constraints.meshes import meshes_of
from meshwright_solver.constraints.pin_filters import stated_layouts
from meshwright_solver.constraints.pins import check_axes, pinned_ops
from meshwright_solver.constraints.strategy_filters import Filters, filters
from meshwright_solver.folding.fold import Folding
from meshwright_solver.folding.folded_plan import FoldedPlans
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import lower
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.uneven import Uneven
from meshwright_solver.problem.values import Values
from meshwright_solver.search.core.outcome import Outcome
from meshwright_solver.search.elimination.dynamic_programming import DynamicProgramming
from meshwright_solver.stage.lower_bounds import (
    least_memory_bytes,
    least_passing_bytes,
    may_fill_hosts,
)
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter
from meshwright_solver.strategies.op_templates import OpSketches
from meshwright_solver.strategies.optimizer_sharding import ALL_REDUCED, OptimizerSharding
from meshwright_solver.strategies.sparse_tables import sparse_lookups
from meshwright_solver.strategies.unsharded_parameters import unsharded_parameters

_IMPOSSIBLE = Outcome("infeasible", None, inf, nan, inf, None)


@dataclass(slots=True)
class MeshSpace:
    """All plans of a problem on one mesh.

    models: of the folded problem. filters: the strategies that pins and constraints allow.
    plans: of choices on any mesh of the problem. elimination: a dynamic program between its two
    steps. It and the whole cost graph are rebuilt after `release`.
    """

    request: Request
    folding: Folding
    models: Models
    filters: Filters
    plans: FoldedPlans
    elimination: DynamicProgramming | None = None
    _unfolding: Unfolding | None = field(default=None, init=False)

    @property
    def mesh(self) -> Mesh:
        return self.models.mesh

    @property
    def unfolding(self) -> Unfolding:
        """The whole cost graph, lowered at the first use. Raises OutOfTime."""
        if self._unfolding is None:
            limit_bytes = self.models.problem.memory_limit_bytes
            lowered = lower(self.models, self.filters.all, limit_bytes)
            self._unfolding = Unfolding(self.folding, lowered)
        return self._unfolding

    def release(self) -> None:
        """Free the tables and the cost graph, some 100 MB at the most."""
        self.elimination = self._unfolding = None

    def refusal(self) -> MeshOutcome | None:
        """The proof, found in milliseconds, that the mesh has no plan: a pin or the memory."""
        pin = broken_pin(self.models, self.filters.all)
        if pin is not None:
            return MeshOutcome(_IMPOSSIBLE, self.models, broken_pin=pin)
        least_bytes = least_memory_bytes(self.models, self.folding)
        if least_bytes > self.models.problem.memory_limit_bytes:
            outcome = replace(_IMPOSSIBLE, minimum_memory_bytes=least_bytes)
            return MeshOutcome(outcome, self.models)
        return None


class MeshSpaces:
    """The search spaces of one problem on meshes of the request's topology."""

    def __init__(
        self,
        request: Request,
        folding: Folding,
        problem: Problem,
        values: Values,
        deadline: Deadline,
    ) -> None:
        """problem, values: of the folded graph. Raises RequestError for pins to axes of no mesh."""
        self.request = request
        self.folding = folding
        self.problem = problem
        self.deadline = deadline
        self.plans = FoldedPlans()
        self.values = values
        self.pins = pinned_ops(problem, request.pins, self.values.views)
        self._sketches = OpSketches(problem, self.values)
        candidates = meshes_of(request, request.budget.max_axes)
        check_axes(list(self.pins.values()), candidates)
        check_groups(problem, candidates)

    def variants(self, mesh: Mesh) -> Iterator[Problem]:
        """The problem without uneven cuts and, if it has any, with them: either may be faster."""
        yield replace(self.problem, uneven=Uneven())
        if self.problem.uneven.has_spans(tuple(axis.size for axis in mesh.axes)):
            yield self.problem

    def on(self, mesh: Mesh, problem: Problem, deadline: Deadline | None = None) -> MeshSpace:
        """The search space of a variant of the problem on a mesh."""
        models = Models(
            problem, self.values, mesh, self._sketches, deadline=deadline or self.deadline
        )
        allowed = filters(problem, self.request, self.pins, self.values, mesh)
        models.followers = allowed.followers
        models.stated = stated_layouts(models, self.pins)
        models.at_rest = wished_at_rest(self.request, mesh)
        if may_fill_hosts(models, self.folding):
            models.at_rest = replace(models.at_rest, finest_on_host=True)
            models.forget_parameters()
        passing_bytes = least_passing_bytes(models)
        if passing_bytes > problem.spare_bytes:
            models.problem = replace(problem, spare_bytes=passing_bytes)
        return MeshSpace(self.request, self.folding, models, allowed, self.plans)

    def possible(self, candidates: Sequence[Mesh]) -> Iterator[MeshSpace]:
        """The spaces of all meshes that are not refused."""
        for mesh in candidates:
            for problem in self.variants(mesh):
                space = self.on(mesh, problem)
                if space.refusal() is None:
                    yield space


def wished_at_rest(request: Request, mesh: Mesh) -> OptimizerSharding:
    """The request's constraints on parameters of a mesh; a request names its sparse tables."""
    over = () if request.degrees is None else shared_axes(mesh)
    wishes = request.constraints
    return OptimizerSharding(
        ALL_REDUCED if keeps_all_reduce(request) else wishes.optimizer_parallel,
        over,
        wishes.offload,
        sparse=sparse_lookups(request),
        unsharded=unsharded_parameters(request),
    )


def keeps_all_reduce(request: Request) -> bool:
    """Whether a stated fusion of all-reduces keeps gradients whole: no option shards them."""
    return (
        request.setup.fusion.binds_all_reduce
        and request.setup.phase == "training"
        and request.constraints.optimizer_parallel is None
        and request.degrees is None
        and request.target is None
    )


def broken_pin(models: Models, allowed: Mapping[int, StrategyFilter]) -> str | None:
    """The name of an op that has no allowed strategy."""
    for position, keep in allowed.items():
        model = models.ops.model(position)
        if not keep(model, model.choices).any():
            return models.problem.ops[position].name
    return None
