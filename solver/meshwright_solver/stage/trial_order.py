"""The order in which the search of one stage tries policies and numbers of microbatches."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from meshwright_solver.stage.recompute.candidates import PolicyTrials


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """The order of the trials of one search.

    coarse: trials on coarser meshes; only their best are tried. begun: trials on the same meshes,
    which are not repeated. first_only: end at the first plan. beaten_ns: the step of a known plan.
    """

    coarse: PolicyTrials | None = None
    begun: PolicyTrials | None = None
    first_only: bool = False
    beaten_ns: float = inf


ALL = TrialOrder()
