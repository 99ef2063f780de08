"""Plans carried out by training jobs: what a rank does, fetched and checked."""

from meshwright.runtime.ranks import rank_strategy
from meshwright.runtime.source import PlanSource

__all__ = ["PlanSource", "rank_strategy"]
