"""The searches of one problem, mesh by mesh.

dynamic_programming, exact    over the whole cost graph of a mesh: what they prove, they prove
recursive_programming,        decide a strategy for every op; what lies between ops, parameters
sharding_propagation,         at rest and memory are then completed exactly
semi_auto
auto                          dynamic_programming; where its tables would be too large, the
                              strategies of recursive_programming improved by lagrangian_search.
                              Where time is limited, recursive_programming on the coarsest mesh
                              gives a plan to fall back on first
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Finding, Mesh, Progress, Request
from solver.bounds import least_memory, work_bound_ns
from solver.constraints import Filters, filters
from solver.deadline import Deadline
from solver.dynamic_programming import dynamic_programming
from solver.elimination.eliminator import TableTooLarge
from solver.exact import exact
from solver.folding import Folding
from solver.incumbent import Progress as Step
from solver.infeasibility import Restriction, explain_infeasible
from solver.lagrangian_search import lagrangian_search
from solver.lowering import Models, lower
from solver.meshes import meshes
from solver.op_sketches import OpSketches
from solver.outcome import Budget, ChoiceSearch, Outcome
from solver.pins import Allowed, check_axes, pinned_ops
from solver.problem import Problem
from solver.propagation.given import Propagation
from solver.recursive_programming import Strategies, recursive_programming
from solver.semi_auto import semi_auto
from solver.sharding_propagation import at_prices, sharding_propagation
from solver.simplicity import simpler
from solver.states import IntArray
from solver.uneven import Uneven
from solver.unfolding import Unfolding
from solver.values import find_values

Say = Callable[[Progress], None]

# chosen: a gap below what any cost model can tell apart; the search stops there
TOLERANCE = 1e-3

# chosen: a plan that takes less of the memory was not made dearer by the limit
ROOMY = 0.8

TOO_LARGE = "its tables would be too large"


@dataclass(frozen=True, slots=True)
class MeshOutcome:
    """What was found and proved on one mesh.

    outcome.lower_bound_ns holds for every plan on the mesh; `infeasible` is only said of all plans.
    broken_pin: the op that can keep its pin in no way. short_bytes: the least memory of the
    strategies that a search found, where that is too much. left_out: why nothing is known.
    simplicity_ns: what it costs more than the cheapest choice found, for being simpler.
    """

    mesh: Mesh
    outcome: Outcome
    models: Models
    found_by: str = ""
    unfolding: Unfolding | None = None
    broken_pin: str | None = None
    left_out: str = ""
    short_bytes: float | None = None
    notes: tuple[str, ...] = ()
    simplicity_ns: float = 0.0


@dataclass(slots=True)
class History:
    """Cheaper and cheaper plans, and how many seconds after the start each was found."""

    started: float = field(default_factory=time.monotonic)
    findings: list[Finding] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, search: str, mesh: Mesh, cost_ns: float) -> None:
        if self.findings and cost_ns >= self.findings[-1].cost_ns:
            return
        self.findings.append(Finding(search=search, mesh=shown(mesh), cost_ns=cost_ns))
        self.seconds.append(time.monotonic() - self.started)


def shown(mesh: Mesh) -> str:
    """A mesh in words."""
    return " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)


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
    ) -> None:
        self.request = request
        self.folding = folding
        self.problem = problem
        self.deadline = deadline
        self.history = history
        self.say = say
        self.now = Progress(phase="starting", done=0, total=1)
        self.values = find_values(problem)
        self.sketches = OpSketches(problem, self.values)
        self.pins = pinned_ops(problem, request.pins, self.values.views)
        check_axes(list(self.pins.values()), meshes(request.topology, request.budget.max_axes))

    def run(self, candidates: Sequence[Mesh]) -> list[MeshOutcome]:
        """The outcome of every mesh, with and without uneven cuts where both may be."""
        outcomes: list[MeshOutcome] = []
        spaces = [(mesh, own) for mesh in candidates for own in _spaces(self.problem, mesh)]
        if self._wants_a_plan_soon():
            coarsest = meshes(self.request.topology, 1)[0]
            outcomes += self._quickly(coarsest, next(_spaces(self.problem, coarsest)))
        for done, (mesh, problem) in enumerate(spaces):
            if done and self.deadline.is_over():
                outcomes += [self._left_out(*space, "the time was over") for space in spaces[done:]]
                break
            best = min((o.outcome.cost_ns for o in outcomes), default=inf)
            phase = f"{shown(mesh)}, {self.problem.microbatches} microbatch(es)"
            incumbent = best if best < inf else None
            self.now = Progress(phase=phase, done=done, total=len(spaces), incumbent_ns=incumbent)
            self.say(self.now)
            left = self.deadline.left_s()
            budget = Budget(
                seconds=None if left is None else left / (len(spaces) - done),
                tolerance=TOLERANCE,
                cutoff_ns=best,
                stop=self.deadline.stop,
            )
            outcomes.append(self._on(mesh, problem, budget))
        self.say(Progress(phase="done", done=len(spaces), total=len(spaces)))
        return outcomes

    def simplified(self, best: MeshOutcome) -> MeshOutcome:
        """The simplest plan on the mesh of the best that is about as good."""
        tolerance = self.request.budget.simplicity
        searched = self.request.solver in ("auto", "dynamic_programming", "exact")
        choice = best.outcome.choice
        if not searched or choice is None or best.unfolding is None or self.deadline.is_over():
            return best
        budget = Budget(seconds=self.deadline.left_s(), stop=self.deadline.stop)
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
        note = (
            f"simpler than the cheapest plan found, which takes {extra_ns / 1e6:.3f} ms less: "
            f"{found.after.relayouts} re-layouts instead of {found.before.relayouts}, "
            f"{found.after.odd_repeats} ops of repeated layers unlike most instead of "
            f"{found.before.odd_repeats}"
        )
        return replace(
            best, outcome=outcome, notes=(*best.notes, note), simplicity_ns=max(0.0, extra_ns)
        )

    def _left_out(self, mesh: Mesh, problem: Problem, why: str) -> MeshOutcome:
        models = Models(problem, self.values, mesh, self.sketches)
        return MeshOutcome(mesh, _NOT_SEARCHED, models, left_out=why)

    def contradiction(self, mesh: Mesh) -> tuple[str, ...]:
        """A smallest set of pins that no plan on the mesh keeps, in the memory there is.

        Empty where the time ended first, or pins are not what is in the way.
        """
        models, given = self._models(mesh, self.problem)
        unfolding = Unfolding(self.folding, lower(models, given.allowed, self._limit(models)))
        masks: dict[str, dict[int, NDArray[np.bool_]]] = {}
        for position, pin in self.pins.items():
            model = models.ops.model(position)
            kept = given.pinned[position](model, model.choices)
            own = masks.setdefault(str(pin), {})
            own.update(dict.fromkeys(unfolding.places(unfolding.lowered.op_node[position]), kept))
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

    def _quickly(self, mesh: Mesh, problem: Problem) -> Iterator[MeshOutcome]:
        """A plan to fall back on; it says nothing of any other."""
        models, given = self._models(mesh, problem)
        if _broken_pin(models, given.all) is None:
            budget = Budget(self.deadline.left_s(), tolerance=TOLERANCE, stop=self.deadline.stop)
            found = self._decided(models, given, "recursive_programming", budget)
            if found.outcome.choice is not None:
                yield replace(found, outcome=replace(found.outcome, lower_bound_ns=inf))

    def _models(self, mesh: Mesh, problem: Problem) -> tuple[Models, Filters]:
        models = Models(problem, self.values, mesh, self.sketches)
        given = filters(problem, self.request, self.pins, self.values, mesh)
        models.followers = given.followers
        return models, given

    def _on(self, mesh: Mesh, problem: Problem, budget: Budget) -> MeshOutcome:
        models, given = self._models(mesh, problem)
        broken = _broken_pin(models, given.all)
        if broken is not None:
            return MeshOutcome(mesh, _IMPOSSIBLE, models, broken_pin=broken)
        least = sum(part.total for part in least_memory(models, self.folding))
        if least > self._limit(models):
            return MeshOutcome(mesh, replace(_IMPOSSIBLE, minimum_memory_bytes=least), models)
        solver = self.request.solver
        if solver == "auto" or solver == "dynamic_programming":
            return self._whole(models, given, "dynamic_programming", dynamic_programming, budget)
        if solver == "exact":
            return self._whole(models, given, "exact", exact, budget)
        return self._decided(models, given, solver, budget)

    def _whole(
        self,
        models: Models,
        given: Filters,
        name: str,
        search: ChoiceSearch,
        budget: Budget,
    ) -> MeshOutcome:
        """A search over the whole cost graph of the mesh."""
        unfolding = Unfolding(self.folding, lower(models, given.all, self._limit(models)))
        listener = self._listener(name, models.mesh)
        start = self._start(models, given, unfolding, budget) if search is exact else None
        try:
            found = search(unfolding.graph, budget, listener, start)
        except TableTooLarge:
            if self.request.solver != "auto":
                return self._left_out(models.mesh, models.problem, TOO_LARGE)
            start = self._start(models, given, unfolding, budget)
            name = "lagrangian_search"
            listener = self._listener(name, models.mesh)
            found = lagrangian_search(unfolding.graph, budget, listener, start)
        return MeshOutcome(models.mesh, found, models, name, unfolding)

    def _start(
        self, models: Models, given: Filters, unfolding: Unfolding, budget: Budget
    ) -> IntArray | None:
        """What recursive programming finds, as a choice of the whole cost graph."""
        found = self._decided(models, given, "recursive_programming", budget)
        if found.unfolding is None or found.outcome.choice is None:
            return None
        return unfolding.choice_from(found.unfolding, found.outcome.choice)

    def _decided(self, models: Models, given: Filters, name: str, budget: Budget) -> MeshOutcome:
        """Strategies by a search over ops, the rest exact: a plan, but no proof."""
        bound = work_bound_ns(models, self.folding)
        least: list[float] = []
        best: MeshOutcome | None = None
        for strategies, notes in self._strategies(models, given, name):
            rows = {position: _Row(row) for position, row in strategies.items()}
            unfolding = Unfolding(self.folding, lower(models, rows, self._limit(models)))
            found = dynamic_programming(
                unfolding.graph, replace(budget, cutoff_ns=inf), self._listener(name, models.mesh)
            )
            if found.choice is not None:
                own = replace(found, lower_bound_ns=bound, status="feasible")
                if best is None or own.cost_ns < best.outcome.cost_ns:
                    best = MeshOutcome(models.mesh, own, models, name, unfolding, notes=notes)
                is_roomy = found.memory_bytes < ROOMY * self._limit(models)
                if is_roomy or name == "recursive_programming":
                    break  # its later answers are leaner, and only for want of room
            elif found.minimum_memory_bytes is not None:
                least.append(found.minimum_memory_bytes)
        if best is not None:
            return best
        unknown = replace(_NOT_SEARCHED, lower_bound_ns=bound)
        short = min(least, default=None)
        return MeshOutcome(models.mesh, unknown, models, name, short_bytes=short)

    def _strategies(
        self, models: Models, given: Filters, name: str
    ) -> Iterator[tuple[Strategies, tuple[str, ...]]]:
        if name == "recursive_programming":
            limit = self._limit(models)
            for own in recursive_programming(models, self.folding, given.all, limit):
                yield own, ()
            return
        tied = self._tied()

        def ask(ns_per_byte: float) -> Propagation:
            if name == "semi_auto":
                rest = self.request.rest
                return semi_auto(models, given.pinned, rest, tied, given.allowed, ns_per_byte)
            return sharding_propagation(models, given.pinned, tied, given.allowed, ns_per_byte)

        for found in at_prices(ask, self._limit(models)):
            notes = (*(str(conflict) for conflict in found.conflicts), *found.notes)
            yield {p: tuple(map(int, row)) for p, row in found.strategies.items()}, notes

    def _tied(self) -> list[list[int]]:
        """Positions of ops that folding wants to have one strategy."""
        by_name = {op.name: position for position, op in enumerate(self.problem.ops)}
        return [
            [by_name[name] for name in names]
            for run in self.folding.runs
            for names in run.alike()
            if names[0] in by_name
        ]

    def _limit(self, models: Models) -> float:
        problem = models.problem
        return problem.topology.device.memory_bytes * (1 - problem.setup.memory_reserve)

    def _listener(self, search: str, mesh: Mesh) -> Callable[[Step], None]:
        def hear(step: Step) -> None:
            if step.cost_ns is not None:
                self.history.add(search, mesh, step.cost_ns)
            best = self.history.findings[-1].cost_ns if self.history.findings else None
            bound = step.lower_bound_ns if isfinite(step.lower_bound_ns) else None
            update = {"incumbent_ns": best, "lower_bound_ns": bound}
            self.say(self.now.model_copy(update=update))

        return hear


_IMPOSSIBLE = Outcome("infeasible", None, inf, nan, inf, None)
_NOT_SEARCHED = Outcome("unknown", None, inf, nan, -inf, None)


class _Row:
    """Keeps one strategy."""

    def __init__(self, row: Iterable[int]) -> None:
        self.row = np.array(tuple(row), dtype=np.int64)

    def __call__(self, _: object, choices: IntArray) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = (choices == self.row).all(axis=1)
        return kept


def _spaces(problem: Problem, mesh: Mesh) -> Iterator[Problem]:
    """The problem without spans and, where there are any, with: either can be the faster."""
    yield replace(problem, uneven=Uneven())
    if problem.uneven.has_spans(tuple(axis.size for axis in mesh.axes)):
        yield problem


def _broken_pin(models: Models, allowed: Mapping[int, Allowed]) -> str | None:
    for position, keep in allowed.items():
        model = models.ops.model(position)
        if not keep(model, model.choices).any():
            return models.problem.ops[position].name
    return None
