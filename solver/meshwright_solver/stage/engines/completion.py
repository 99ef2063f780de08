"""Strategies of ops, completed to plans: layouts between ops, parameters, saved activations.

An engine that decides strategies proposes them, the leanest last. With these fixed the rest is
solved exactly under the memory limit. Every such engine gives plans that fit, or the memory that
they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from meshwright_solver.common.deadline import Deadline, OutOfTime
from meshwright_solver.constraints.pins import exactly
from meshwright_solver.evaluation.notes import once
from meshwright_solver.folding.fold import Folding
from meshwright_solver.folding.mesh_outcome import NOT_SEARCHED, MeshOutcome
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import lower
from meshwright_solver.search.core.incumbent import Report
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.stage.heuristics.propagation.inputs import Propagation
from meshwright_solver.stage.heuristics.propagation.sharding_propagation import at_prices
from meshwright_solver.stage.heuristics.recursive_programming import Strategies
from meshwright_solver.stage.mesh_space import MeshSpace
from meshwright_solver.stage.search_progress import SearchProgress
from meshwright_solver.strategies.mesh_models import Models

# chosen: a plan below this share of the memory was not made dearer by the limit
ROOMY = 0.8


@dataclass(frozen=True, slots=True)
class StrategyProposal:
    """A strategy for every op by position, and the notes of its plan."""

    strategies: Strategies
    notes: tuple[str, ...] = ()


def proposal_search(
    engine: str, propose: Callable[[MeshSpace], Iterator[StrategyProposal]]
) -> Callable[[MeshSpace, SearchBudget, SearchProgress], MeshOutcome]:
    """The search of an engine that decides strategies: the best completed proposal."""

    def search(space: MeshSpace, budget: SearchBudget, progress: SearchProgress) -> MeshOutcome:
        models = space.models
        if budget.cutoff_ns < inf:
            models.deadline = Deadline.after(budget.seconds, budget.stop)
        else:  # the first plan may take all the remaining time
            budget = replace(budget, seconds=models.deadline.left_s())
        report = progress.reporter(engine, space.mesh)
        return completed(models, space.folding, engine, propose(space), budget, report)

    return search


def priced_proposals(
    space: MeshSpace, propagate: Callable[..., Propagation]
) -> Iterator[StrategyProposal]:
    """Propagations at higher and higher prices of memory. propagate: takes `ns_per_byte`."""
    limit_bytes = space.models.problem.memory_limit_bytes
    for propagation in at_prices(lambda price: propagate(ns_per_byte=price), limit_bytes):
        notes = once((*map(str, propagation.conflicts), *propagation.notes))
        strategies = {p: tuple(map(int, row)) for p, row in propagation.strategies.items()}
        yield StrategyProposal(strategies, notes)


def tied_ops(space: MeshSpace) -> list[list[int]]:
    """Positions of the ops that must have one strategy because of folding, group by group."""
    position_of = space.models.problem.position_of
    return [
        [position_of[name] for _, name in group]
        for group in space.folding.alike
        if group[0][0] == "op"
    ]


def completed(
    models: Models,
    folding: Folding,
    engine: str,
    proposals: Iterable[StrategyProposal],
    budget: SearchBudget,
    report: Report,
) -> MeshOutcome:
    """The best plan with the proposed strategies. It proves nothing about other plans."""
    limit_bytes = models.problem.memory_limit_bytes
    deadline = Deadline.after(budget.seconds, budget.stop)
    least_bytes: list[float] = []
    best: MeshOutcome | None = None
    for proposal in _until_timeout(proposals):
        if best is not None and deadline.is_over():
            break
        fixed = {p: exactly(np.array(row)) for p, row in proposal.strategies.items()}
        try:
            unfolding = Unfolding(folding, lower(models, fixed, limit_bytes))
        except OutOfTime:
            break
        useful_ns = inf if best is None else best.outcome.cost_ns
        rest_budget = replace(budget, seconds=deadline.left_s(), cutoff_ns=useful_ns)
        outcome = dynamic_programming(unfolding.graph, rest_budget, report)
        if outcome.choice is not None:
            if best is None or outcome.cost_ns < best.outcome.cost_ns:
                unproved = replace(outcome, lower_bound_ns=-inf, status="feasible")
                best = MeshOutcome(unproved, models, engine, unfolding, notes=proposal.notes)
            if outcome.memory_bytes < ROOMY * limit_bytes:
                break  # later proposals are leaner, which is of use only if memory is short
        elif outcome.minimum_memory_bytes is not None:
            least_bytes.append(outcome.minimum_memory_bytes)
    if best is not None:
        return best
    return MeshOutcome(NOT_SEARCHED, models, engine, short_bytes=min(least_bytes, default=None))


def _until_timeout(proposals: Iterable[StrategyProposal]) -> Iterator[StrategyProposal]:
    """The proposals that are made before the time ends."""
    try:
        yield from proposals
    except OutOfTime:
        return
