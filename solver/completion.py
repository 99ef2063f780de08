"""Strategies of ops, completed to plans: what lies between ops, parameters, what is saved.

A search over ops proposes strategies, the leanest last. With these fixed the rest is solved exactly
under the memory limit, so that every such search gives plans that fit, or says what they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from meshwright.schema.wishes import Rest
from solver.constraints import Filters
from solver.deadline import Deadline, OutOfTime
from solver.dynamic_programming import dynamic_programming
from solver.folding import Folding
from solver.incumbent import Report
from solver.lowering import Models, lower
from solver.mesh_outcome import NOT_SEARCHED, MeshOutcome
from solver.notes import once
from solver.outcome import Budget
from solver.pins import exactly
from solver.propagation.given import Propagation
from solver.recursive_programming import Strategies, recursive_programming
from solver.semi_auto import semi_auto
from solver.sharding_propagation import at_prices, sharding_propagation
from solver.unfolding import Unfolding

# chosen: a plan that takes less of the memory was not made dearer by the limit
ROOMY = 0.8


@dataclass(frozen=True, slots=True)
class Proposal:
    """A strategy for every op by position, and what is to be said of it."""

    strategies: Strategies
    notes: tuple[str, ...] = ()


def op_strategies(
    models: Models, folding: Folding, given: Filters, name: str, rest: Rest
) -> Iterator[Proposal]:
    """What the search of this name proposes on a mesh; models: of the folded graph."""
    limit = models.problem.memory_limit_bytes
    if name == "recursive_programming":
        for own in recursive_programming(models, folding, given.all, limit):
            yield Proposal(own)
        return
    tied = _tied(models, folding)

    def ask(ns_per_byte: float) -> Propagation:
        if name == "semi_auto":
            return semi_auto(models, given.pinned, rest, tied, given.allowed, ns_per_byte)
        return sharding_propagation(models, given.pinned, tied, given.allowed, ns_per_byte)

    for found in at_prices(ask, limit):
        notes = once((*map(str, found.conflicts), *found.notes))
        yield Proposal({p: tuple(map(int, row)) for p, row in found.strategies.items()}, notes)


def completed(
    models: Models,
    folding: Folding,
    name: str,
    proposals: Iterable[Proposal],
    budget: Budget,
    report: Report,
) -> MeshOutcome:
    """The best plan with the proposed strategies; of other plans it says nothing."""
    limit = models.problem.memory_limit_bytes
    deadline = Deadline.after(budget.seconds, budget.stop)
    least: list[float] = []
    best: MeshOutcome | None = None
    for proposal in _in_time(proposals):
        if best is not None and deadline.is_over():
            break
        fixed = {p: exactly(np.array(row)) for p, row in proposal.strategies.items()}
        try:
            unfolding = Unfolding(folding, lower(models, fixed, limit))
        except OutOfTime:
            break
        useful_ns = inf if best is None else best.outcome.cost_ns
        own_budget = replace(budget, seconds=deadline.left_s(), cutoff_ns=useful_ns)
        found = dynamic_programming(unfolding.graph, own_budget, report)
        if found.choice is not None:
            own = replace(found, lower_bound_ns=-inf, status="feasible")
            if best is None or own.cost_ns < best.outcome.cost_ns:
                best = MeshOutcome(own, models, name, unfolding, notes=proposal.notes)
            if found.memory_bytes < ROOMY * limit:
                break  # later proposals are leaner, and only for want of room
        elif found.minimum_memory_bytes is not None:
            least.append(found.minimum_memory_bytes)
    if best is not None:
        return best
    return MeshOutcome(NOT_SEARCHED, models, name, short_bytes=min(least, default=None))


def _in_time(proposals: Iterable[Proposal]) -> Iterator[Proposal]:
    """Those that are made before the time ends."""
    try:
        yield from proposals
    except OutOfTime:
        return


def _tied(models: Models, folding: Folding) -> list[list[int]]:
    """Positions of ops that folding wants to have one strategy."""
    by_name = models.problem.position_of
    return [[by_name[name] for _, name in group] for group in folding.alike if group[0][0] == "op"]
