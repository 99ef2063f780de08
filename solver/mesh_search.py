"""The searches of one problem, mesh by mesh.

dynamic_programming, exact    over the whole cost graph of a mesh: what they prove, they prove
recursive_programming,        decide a strategy for every op; what lies between ops, parameters
sharding_propagation,         at rest and memory are then completed exactly
semi_auto
auto                          dynamic_programming; where its tables would be too large,
                              message_search, which may leave a gap.
                              Where time is limited, recursive_programming on the coarsest mesh
                              gives a plan to fall back on first; where somebody ends the
                              search before there is a plan, it does so then
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Mesh, Progress, Request
from solver.at_rest import AtRest
from solver.bounds import (
    least_memory_bytes,
    least_passing_bytes,
    may_fill_hosts,
    work_bound_ns,
)
from solver.completion import completed, op_strategies
from solver.constraints import Filters, filters
from solver.deadline import ENDLESS, Deadline, OutOfTime
from solver.dynamic_programming import DynamicProgramming
from solver.elimination.eliminator import TableTooLarge
from solver.elimination.order import nodes_apart
from solver.exact import exact
from solver.folded_plan import FoldedPlans
from solver.folding import Folding
from solver.incumbent import Progress as Step
from solver.infeasibility import Restriction, explain_infeasible
from solver.lowering import Models, lower
from solver.mesh_outcome import NOT_SEARCHED, TOLERANCE, TOO_LARGE, History, MeshOutcome, shown
from solver.meshes import meshes_of
from solver.message_search import message_search
from solver.op_sketches import OpSketches
from solver.outcome import MOST_LABELS, Budget, ChoiceSearch, Outcome
from solver.pins import Allowed, check_axes, pinned_ops
from solver.problem import Problem
from solver.simplicity import simpler
from solver.sparse_tables import sparse_lookups
from solver.stated.mesh import shared_axes
from solver.states import IntArray
from solver.uneven import Uneven
from solver.unfolding import Unfolding
from solver.values import find_values

Say = Callable[[Progress], None]
# given what makes the outcomes of a search that goes on, once it has another choice
Hear = Callable[[Callable[[], list[MeshOutcome]]], None]
# mesh, and whether it has uneven cuts -> what no plan costs less than, whatever the memory
Floors = dict[tuple[Mesh, bool], float]

# chosen: meshes whose tables are kept between the two rounds; some 100 MB each at the most
HELD = 8
# measured: elimination spends 0.1 ms on each before it has a table, message passing less in all
_MOST_APART = 20_000


@dataclass(slots=True)
class _Begun:
    """A mesh between the two rounds of a search.

    floor_ns: no plan on it costs less. ended: its outcome, where the first round is enough.
    unfolding, search: let go of where too many are held, and then made again.
    """

    models: Models
    given: Filters
    floor_ns: float = -inf
    ended: MeshOutcome | None = None
    unfolding: Unfolding | None = None
    search: DynamicProgramming | None = None


class MeshSearch:
    """One problem, searched mesh by mesh for one request."""

    def __init__(
        self,
        request: Request,
        folding: Folding,
        problem: Problem,
        deadline: Deadline,
        history: History,
        say: Say,
        tolerance: float = TOLERANCE,
        floors: Floors | None = None,
        max_labels: int = MOST_LABELS,
    ) -> None:
        """tolerance: the gap at which the search of a mesh ends. floors: what searches of the same
        problem in other memory know of its meshes, and this one will. max_labels: see Budget."""
        self.floors: Floors = {} if floors is None else floors
        self.tolerance = tolerance
        self.max_labels = max_labels
        self.request = request
        self.folding = folding
        self.problem = problem
        self.deadline = deadline
        self.history = history
        self.say = say
        self.now = Progress(phase="starting", done=0, total=1)
        self.hear: Hear = lambda _: None
        self.plans = FoldedPlans()
        self.values = find_values(problem)
        self.sketches = OpSketches(problem, self.values)
        self.pins = pinned_ops(problem, request.pins, self.values.views)
        check_axes(list(self.pins.values()), meshes_of(request, request.budget.max_axes))

    def run(self, candidates: Sequence[Mesh]) -> list[MeshOutcome]:
        """The outcome of every mesh, with and without uneven cuts where both may be.

        In two rounds: the first says what a mesh can be worth, the second searches the most
        promising first, so that most others need no more than to be beaten.
        """
        spaces = [(mesh, own) for mesh in candidates for own in _spaces(self.problem, mesh)]
        outcomes: list[MeshOutcome] = []
        soon: list[MeshOutcome] = []
        if self._wants_a_plan_soon():
            soon += self._quickly(self.deadline)
        begun: list[_Begun] = []
        steps = 2 * len(spaces)
        for mesh, problem in spaces:
            own = self._begun(mesh, problem, self._step(mesh, len(begun), steps, soon))
            begun.append(own)
            self._let_go(begun)
        begun.sort(key=lambda own: own.floor_ns)
        if soon:
            self.hear(lambda: self._so_far(soon, outcomes, begun))
        for done, own in enumerate(begun, len(begun)):
            budget = self._step(own.models.mesh, done, steps, (*soon, *outcomes))
            outcomes.append(self._ended(own, budget))
            if outcomes[-1].outcome.choice is not None:
                self.hear(lambda: self._so_far(soon, outcomes, begun))
        if self._was_stopped_before_a_plan((*soon, *outcomes)):
            soon += self._quickly(ENDLESS)
        self.say(Progress(phase="done", done=steps, total=steps))
        return self._together(soon, outcomes)

    def _so_far(
        self, soon: list[MeshOutcome], outcomes: list[MeshOutcome], begun: Sequence[_Begun]
    ) -> list[MeshOutcome]:
        """What the outcomes would be, were the second round to end now."""
        waiting = [_waiting(own) for own in begun[len(outcomes) :]]
        return self._together(soon, [*outcomes, *waiting])

    def _together(self, soon: list[MeshOutcome], outcomes: list[MeshOutcome]) -> list[MeshOutcome]:
        if any(not own.left_out for own in outcomes):
            # their bounds hold on the coarsest mesh too, which is a special case of each
            soon = [_with_bound(own, inf) for own in soon]
        return [self._bounded(own) for own in (*soon, *outcomes)]

    def wholes(self, candidates: Sequence[Mesh]) -> Iterator[Unfolding]:
        """The whole cost graph of every mesh on which there may be a plan, with and without uneven
        cuts where both may be."""
        for mesh in candidates:
            for problem in _spaces(self.problem, mesh):
                models, given = self.models_on(mesh, problem, self.deadline)
                if self._impossible(models, given) is None:
                    yield self._whole(_Begun(models, given))

    def _bounded(self, own: MeshOutcome) -> MeshOutcome:
        """Where a search proves nothing: no plan costs less than all work at its fastest."""
        if own.outcome.lower_bound_ns > -inf or own.left_out:
            return own
        return _with_bound(own, work_bound_ns(own.models, self.folding))

    def _step(self, mesh: Mesh, done: int, steps: int, outcomes: Sequence[MeshOutcome]) -> Budget:
        """Say what comes next; what it may use up."""
        best = min((o.outcome.cost_ns for o in outcomes), default=inf)
        phase = f"{shown(mesh)}, {self.problem.microbatches} microbatch(es)"
        incumbent = best if best < inf else None
        self.now = Progress(phase=phase, done=done, total=steps, incumbent_ns=incumbent)
        self.say(self.now)
        left = self.deadline.left_s()
        return Budget(
            seconds=None if left is None else left / (steps - done),
            tolerance=self.tolerance,
            max_labels=self.max_labels,
            cutoff_ns=best,
            stop=self.deadline.stop,
        )

    def _let_go(self, begun: Sequence[_Begun]) -> None:
        held = [own for own in begun if own.search is not None]
        if len(held) > HELD:
            worst = max(held, key=lambda own: own.floor_ns)
            worst.search = worst.unfolding = None

    def simplified(self, best: MeshOutcome) -> MeshOutcome:
        """The simplest plan on the mesh of the best that is about as good."""
        tolerance = self.request.budget.simplicity
        searched = self.request.solver in ("auto", "dynamic_programming", "exact")
        searched = searched and best.found_by != _LARGE[0]  # what simplifies has such tables too
        choice = best.outcome.choice
        if not searched or choice is None or best.unfolding is None or self.deadline.is_over():
            return best
        budget = Budget(
            seconds=self.deadline.left_s(), max_labels=self.max_labels, stop=self.deadline.stop
        )
        found = simpler(best.unfolding, choice, tolerance, budget)
        if found is None:
            return best
        extra_ns = found.cost_ns - best.outcome.cost_ns
        outcome = replace(
            best.outcome,
            choice=found.choice,
            cost_ns=found.cost_ns,
            memory_bytes=found.memory_bytes,
        )
        less = f", which takes {extra_ns / 1e6:.3f} ms less" if extra_ns > 0 else ""
        note = f"simpler than the cheapest plan found before{less}: {found.gained}"
        return replace(
            best, outcome=outcome, notes=(*best.notes, note), simplicity_ns=max(0.0, extra_ns)
        )

    def contradiction(self, mesh: Mesh) -> tuple[str, ...]:
        """A smallest set of pins that no plan on the mesh keeps, in the memory there is.

        Empty where the time ended first, or pins are not what is in the way.
        """
        models, given = self.models_on(mesh, self.problem, self.deadline)
        try:
            lowered = lower(models, given.allowed, models.problem.memory_limit_bytes)
        except OutOfTime:
            return ()
        unfolding = Unfolding(self.folding, lowered)
        masks: dict[str, dict[int, NDArray[np.bool_]]] = {}
        for position, pin in self.pins.items():
            model = models.ops.model(position)
            kept = given.pinned[position](model, model.choices)
            own = masks.setdefault(str(pin), {})
            places = unfolding.places(unfolding.lowered.op_node[position])
            own.update(dict.fromkeys(places.tolist(), kept))
        explained = explain_infeasible(
            unfolding.graph,
            [Restriction(pin, own) for pin, own in masks.items()],
            seconds=self.deadline.left_s(),
            stop=self.deadline.stop,
        )
        if explained is None or explained.constraint != "restrictions":
            return ()
        return explained.names

    def _wants_a_plan_soon(self) -> bool:
        return self.request.solver == "auto" and self.request.budget.seconds is not None

    def _was_stopped_before_a_plan(self, outcomes: Sequence[MeshOutcome]) -> bool:
        """Whether who ends the search would go away with nothing."""
        found = any(own.outcome.choice is not None for own in outcomes)
        is_open = any(own.outcome.status == "unknown" for own in outcomes)
        return self.request.solver == "auto" and self.deadline.stop() and is_open and not found

    def _quickly(self, deadline: Deadline) -> Iterator[MeshOutcome]:
        """A plan to fall back on: of recursion, on the coarsest mesh."""
        mesh = meshes_of(self.request, 1)[0]
        models, given = self.models_on(mesh, next(_spaces(self.problem, mesh)), deadline)
        if self._impossible(models, given) is None:
            budget = Budget(deadline.left_s(), tolerance=self.tolerance, stop=deadline.stop)
            found = self._decided(models, given, "recursive_programming", budget)
            if found.outcome.choice is not None:
                yield found

    def models_on(self, mesh: Mesh, problem: Problem, deadline: Deadline) -> tuple[Models, Filters]:
        """Of a problem on a mesh, with all that the request says."""
        models = Models(problem, self.values, mesh, self.sketches, deadline=deadline)
        given = filters(problem, self.request, self.pins, self.values, mesh)
        models.followers = given.followers
        over = () if self.request.degrees is None else shared_axes(mesh)
        wishes = self.request.constraints
        models.at_rest = AtRest(
            wishes.optimizer_parallel, over, wishes.offload, sparse=sparse_lookups(self.request)
        )
        if may_fill_hosts(models, self.folding):
            models.at_rest = replace(models.at_rest, finest_on_host=True)
            models.forget_parameters()
        passing = least_passing_bytes(models)
        if passing > problem.spare_bytes:
            models.problem = replace(problem, spare_bytes=passing)
        return models, given

    def _begun(self, mesh: Mesh, problem: Problem, budget: Budget) -> _Begun:
        """The first round: what is told without a search, and the least cost without the limit."""
        models, given = self.models_on(mesh, problem, self.deadline)
        own = _Begun(models, given, ended=self._impossible(models, given))
        if own.ended is not None:
            return own
        if self.deadline.is_over():
            own.ended = _late(models)
            return own
        if self.request.solver in ("auto", "dynamic_programming"):
            space = mesh, problem.uneven != Uneven()
            known = self.floors.get(space)
            if known is not None:
                own.floor_ns = known  # it is eliminated when its turn comes, if it does
                return own
            try:
                self._eliminate(own, budget)
            except OutOfTime:
                own.ended = _late(models)
            if own.ended is None and isfinite(own.floor_ns):
                self.floors[space] = own.floor_ns
        return own

    def _impossible(self, models: Models, given: Filters) -> MeshOutcome | None:
        """What is told of a mesh in milliseconds: pins that it cannot keep, memory it has not."""
        broken = broken_pin(models, given.all)
        if broken is not None:
            return MeshOutcome(_IMPOSSIBLE, models, broken_pin=broken)
        least = least_memory_bytes(models, self.folding)
        if least > models.problem.memory_limit_bytes:
            return MeshOutcome(replace(_IMPOSSIBLE, minimum_memory_bytes=least), models)
        return None

    def _eliminate(self, own: _Begun, budget: Budget) -> None:
        """Begin dynamic programming, or leave it where its tables would be too large."""
        own.unfolding = self._whole(own)
        is_auto = self.request.solver == "auto"
        if is_auto and int(nodes_apart(own.unfolding.graph).sum()) > _MOST_APART:
            own.floor_ns = inf  # as below
            return
        listener = self._listener("dynamic_programming", own.models.mesh)
        try:
            own.search = DynamicProgramming(own.unfolding.graph, budget, listener)
            own.floor_ns = own.search.floor_ns
        except TableTooLarge:
            own.floor_ns = inf  # not known, and last in turn
            if not is_auto:
                own.ended = MeshOutcome(NOT_SEARCHED, own.models, left_out=TOO_LARGE)

    def _ended(self, own: _Begun, budget: Budget) -> MeshOutcome:
        """The second round."""
        if own.ended is not None:
            return own.ended
        try:
            return self._searched(own, budget)
        except OutOfTime:
            return _late(own.models)

    def _searched(self, own: _Begun, budget: Budget) -> MeshOutcome:
        mesh, models = own.models.mesh, own.models
        solver = self.request.solver
        if solver not in ("auto", "dynamic_programming", "exact"):
            return self._decided(models, own.given, solver, budget)
        if budget.cutoff_ns <= own.floor_ns < inf:
            note = "no plan here costs less than one of another mesh"
            beaten = Outcome("unknown", None, inf, nan, own.floor_ns, None, (note,))
            return MeshOutcome(beaten, models)
        if own.search is None and -inf < own.floor_ns < inf:
            self._eliminate(own, budget)  # it was let go of
        unfolding = own.unfolding or self._whole(own)
        if own.search is not None:
            found = own.search.outcome(budget)
            return MeshOutcome(found, models, "dynamic_programming", unfolding)
        name, search = ("exact", exact) if solver == "exact" else _LARGE
        start = self._start(own, unfolding, budget) if solver == "exact" else None
        if solver != "exact":
            budget = replace(budget, over_bytes=partial(self._over_bytes, models, unfolding))
        try:
            found = search(unfolding.graph, budget, self._listener(name, mesh), start)
        except TableTooLarge:
            return MeshOutcome(NOT_SEARCHED, models, left_out=TOO_LARGE)
        return MeshOutcome(found, models, name, unfolding)

    def _whole(self, own: _Begun) -> Unfolding:
        """The whole cost graph of a mesh."""
        lowered = lower(own.models, own.given.all, own.models.problem.memory_limit_bytes)
        return Unfolding(self.folding, lowered)

    def _over_bytes(self, models: Models, unfolding: Unfolding, choice: IntArray) -> float:
        """What the plan of a choice takes more than there is, with what passes by."""
        found = self.plans.of_choice(models, unfolding, choice).over_bytes
        if found > 0:
            self.history.forget(models.mesh)
        return found

    def _start(self, own: _Begun, unfolding: Unfolding, budget: Budget) -> IntArray | None:
        """What recursive programming finds, as a choice of the whole cost graph."""
        found = self._decided(own.models, own.given, "recursive_programming", budget)
        if found.unfolding is None or found.outcome.choice is None:
            return None
        return unfolding.choice_from(found.unfolding, found.outcome.choice)

    def _decided(self, models: Models, given: Filters, name: str, budget: Budget) -> MeshOutcome:
        """Strategies by a search over ops, the rest exact: a plan, but no proof."""
        if budget.cutoff_ns < inf:
            models.deadline = Deadline.after(budget.seconds, budget.stop)
        else:  # the first plan may take all the time there is
            budget = replace(budget, seconds=models.deadline.left_s())
        strategies = op_strategies(models, self.folding, given, name, self.request.rest)
        listener = self._listener(name, models.mesh)
        return completed(models, self.folding, name, strategies, budget, listener)

    def _listener(self, search: str, mesh: Mesh) -> Callable[[Step], None]:
        def hear(step: Step) -> None:
            if step.cost_ns is not None:
                self.history.add(search, mesh, step.cost_ns)
            best = self.history.findings[-1].cost_ns if self.history.findings else None
            bound = step.lower_bound_ns if isfinite(step.lower_bound_ns) else None
            update = {"incumbent_ns": best, "lower_bound_ns": bound}
            self.say(self.now.model_copy(update=update))

        return hear


def _waiting(own: _Begun) -> MeshOutcome:
    """A mesh that the second round has not come to: what the first one showed."""
    if own.ended is not None:
        return own.ended
    if not isfinite(own.floor_ns):
        return MeshOutcome(NOT_SEARCHED, own.models, left_out="the search had not come to it")
    return MeshOutcome(replace(NOT_SEARCHED, lower_bound_ns=own.floor_ns), own.models)


_LARGE: tuple[str, ChoiceSearch] = ("message_search", message_search)
_IMPOSSIBLE = Outcome("infeasible", None, inf, nan, inf, None)


def _late(models: Models) -> MeshOutcome:
    return MeshOutcome(NOT_SEARCHED, models, left_out="the time was over")


def _with_bound(own: MeshOutcome, bound_ns: float) -> MeshOutcome:
    return replace(own, outcome=replace(own.outcome, lower_bound_ns=bound_ns))


def _spaces(problem: Problem, mesh: Mesh) -> Iterator[Problem]:
    """The problem without spans and, where there are any, with: either can be the faster."""
    yield replace(problem, uneven=Uneven())
    if problem.uneven.has_spans(tuple(axis.size for axis in mesh.axes)):
        yield problem


def broken_pin(models: Models, allowed: Mapping[int, Allowed]) -> str | None:
    """The name of an op that can be nothing that it is allowed to be."""
    for position, keep in allowed.items():
        model = models.ops.model(position)
        if not keep(model, model.choices).any():
            return models.problem.ops[position].name
    return None
