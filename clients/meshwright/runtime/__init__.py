"""The runtime: execution of plans by training jobs, rank by rank."""

from meshwright.runtime.plan_source import PlanSource
from meshwright.runtime.ranks import rank_strategy

__all__ = ["PlanSource", "rank_strategy"]
