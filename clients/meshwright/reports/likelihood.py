"""How likely predictions are right: the order of two plans, and that a plan fits in memory.

    P(second is shorter) = N(log(first / second) / FASTER_SPREAD)
    P(fits)              = N(log(capacity / (MEMORY_RATIO * held)) / MEMORY_SPREAD), or with those
                           of plans for a stack

N is the standard normal distribution. What a prediction gets wrong of a cluster, a model and a
stack, two plans of the same job have in common, so that their ratio is surer than either step.
"""

from __future__ import annotations

import math

from meshwright.schema import MemoryUse
from meshwright.schema.stack import Stack

# measured by others: strategies of one model, batch and cluster (`rank_group` of
# bench/data/steps.csv.gz), standard deviation of the logarithm of measured over predicted ratios of
# pairs, mean of four sources (`python -m bench.published_plans --every 20 --stacks kernels`)
FASTER_SPREAD = 0.145
# the same of plans of different jobs, whose errors have less in common: quantiles 0.1 and 0.9 of
# measured over predicted steps (`meshwright.schema.stack`), of two
JOBS_SPREAD = 0.3
# measured by others: used memory is 1.35 times the predicted (without its reserve) of plans for a
# stack, in the median of 77 rows of FlagPerf, torchtitan and BLOOM, with this standard deviation of
# the logarithm; 1.17 times, where the search may also keep gathered inputs of what is recomputed.
# Chosen: a tenth of it is what the allocator keeps for later, and gives back where memory is short
MEMORY_RATIO, MEMORY_SPREAD = 1.05, 0.134
STACK_MEMORY_RATIO, STACK_MEMORY_SPREAD = 1.21, 0.235


def probability_shorter(first_ns: float, second_ns: float, *, same_job: bool) -> float:
    """The probability that the second of two predicted steps is the shorter one, 0 to 1.

    same_job: whether both are of one graph and topology.
    """
    spread = FASTER_SPREAD if same_job else JOBS_SPREAD
    return _normal(math.log(first_ns / second_ns) / spread)


def probability_fits(memory: MemoryUse, stack: Stack | None = None) -> float:
    """The probability that a plan fits in the memory of its devices, 0 to 1.

    stack: that of the plan's setup.
    """
    held = memory.total - memory.reserved
    if not held or not memory.capacity:
        return 1.0
    ratio, spread = (
        (MEMORY_RATIO, MEMORY_SPREAD)
        if stack is None
        else (STACK_MEMORY_RATIO, STACK_MEMORY_SPREAD)
    )
    return _normal(math.log(memory.capacity / (ratio * held)) / spread)


def _normal(deviations: float) -> float:
    return 0.5 * (1 + math.erf(deviations / math.sqrt(2)))
