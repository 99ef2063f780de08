"""Strategies of a target as text, and as considered configurations of a plan."""

from __future__ import annotations

from meshwright.schema import Considered, Plan
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.planning.target.prices import PricedStrategy


def considered(priced: PricedStrategy, why: str, plan: Plan | None = None) -> Considered:
    """A strategy that is not the answer. plan: of the strategy, if it was planned."""
    return Considered(
        configuration=strategy_text(priced),
        estimated_ns=priced.ns,
        cost_ns=None if plan is None else plan.cost.step_ns,
        memory_bytes=None if plan is None else plan.cost.memory_bytes.total,
        why=why,
    )


def strategy_text(priced: PricedStrategy) -> str:
    """A strategy in a line, as `dp 4, tp 2, zero 1, 8 microbatches`."""
    strategy, configuration = priced.strategy, priced.configuration
    terms = [str(strategy.degrees)]
    if strategy.shard_size is not None:
        terms.append(f"shards over {strategy.shard_size} devices")
    if strategy.ranks > 1:
        terms.append(_pipeline(configuration))
    terms.append(f"{strategy.microbatches} microbatches")
    if strategy.policy != "none":
        layers = "" if strategy.blocks is None else f" in {strategy.blocks} layers of each stage"
        terms.append(f"recompute {strategy.policy}{layers}")
    return ", ".join(terms)


def _pipeline(configuration: Configuration) -> str:
    virtual = configuration.stages_per_rank
    of = f" of {virtual} stages" if virtual > 1 else ""
    return f"{configuration.schedule} on {configuration.ranks} pipeline ranks{of}"
