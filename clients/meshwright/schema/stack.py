"""Software stacks: how long their published steps are, relative to predicted ones.

All numbers are measured steps of others over steps predicted by the published calibration without a
stack: 456 of 476 rows of bench/data/steps.csv.gz and of torchtitan and BLOOM, every source of equal
weight (`python -m bench.published_plans`, 27 November 2026). A source is one or several clusters,
models and releases. What the prediction lacks of a stack (kernels that are not fused, traffic that
is not hidden, hosts that are late, devices below their data sheet) is in the ratio as a whole.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Literal, NamedTuple

from meshwright.schema.errors import SetupError

Stack = Literal["megatron-core", "megatron-deepspeed", "torchtitan", "llm-foundry", "internevo"]


class StackProfile(NamedTuple):
    """ratios: the median of each source. low, high: the quantiles 0.1 and 0.9 of all rows."""

    ratios: Mapping[str, float]
    low: float
    high: float


# measured by others
ANY_LOW, ANY_HIGH = 0.963, 1.708  # of all sources
STACKS: Mapping[Stack, StackProfile] = {
    "megatron-core": StackProfile(
        {
            "flagperf_nvidia": 1.139,
            "korthikanti22": 1.048,
            "megatron_bridge": 1.193,
            "nemo_24": 1.037,
            "nemo_longctx": 1.031,
        },
        0.878,
        1.321,
    ),
    "megatron-deepspeed": StackProfile({"bloom_jz": 1.466, "vtrain_single": 1.134}, 0.997, 1.723),
    "torchtitan": StackProfile({"torchtitan_h100": 1.526}, 1.174, 1.971),
    "llm-foundry": StackProfile({"llm_foundry": 1.131}, 0.988, 1.372),
    "internevo": StackProfile({"internevo": 1.132}, 1.030, 1.249),
}
LEAST_SPREAD = 1.2  # chosen: of one source on few clusters, either way


def stack_ratios(stack: Stack) -> tuple[float, ...]:
    """The ratios of a stack's sources. Raises SetupError for an unknown stack."""
    return tuple(_profile(stack).ratios.values())


def stack_ratio(stack: Stack) -> float:
    """The factor by which predictions for a stack are longer: the median of its sources."""
    return statistics.median(stack_ratios(stack))


def interval_of(stack: Stack | None) -> tuple[float, float]:
    """Measured over predicted steps: the quantiles 0.1 and 0.9, for a prediction of the stack."""
    if stack is None:
        return ANY_LOW, ANY_HIGH
    profile, ratio = _profile(stack), stack_ratio(stack)
    return (
        min(profile.low / ratio, 1 / LEAST_SPREAD),
        max(profile.high / ratio, LEAST_SPREAD),
    )


def _profile(stack: Stack) -> StackProfile:
    if stack not in STACKS:
        raise SetupError(f"unknown stack {stack!r}. Use {', '.join(STACKS)}", pointer="/stack")
    return STACKS[stack]
