"""Software stacks: what they do otherwise than the default, and how long their steps are then.

Ratios are measured steps of others over steps predicted by the published calibration with what the
stack's kernels do: 461 of 476 rows of bench/data/steps.csv.gz and of torchtitan and BLOOM, every
source of equal weight (`python -m bench.published_plans --every 20 --stacks kernels`, 27 November
2026). A source is one or several clusters, models and releases. What the prediction lacks of a
stack (traffic that is not hidden, hosts that are late, devices below their data sheet) is in the
ratio as a whole.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Literal, NamedTuple

from meshwright.schema.errors import SetupError

Stack = Literal["megatron-core", "megatron-deepspeed", "torchtitan", "llm-foundry", "internevo"]


class StackProfile(NamedTuple):
    """What a stack does otherwise than the default, and how long its steps are then.

    ratios: the median of each source. low, high: the quantiles 0.1 and 0.9 of all rows.
    whole_blocks: `full` recomputation runs all ops of a block again, those too whose results
    nothing needs (torch.utils.checkpoint, Megatron-Core). attention: time of fused attention on
    devices newer than A100, relative to kernels that were written for them. gathers_again: inputs
    of tensor parallelism are saved in parts of the sequence, and gathered again in the backward
    pass (Megatron's sequence parallelism, arXiv:2205.05198, section 4.2.2).
    """

    ratios: Mapping[str, float]
    low: float
    high: float
    whole_blocks: bool = False
    attention: float = 1.0
    gathers_again: bool = False


# chosen: what llm-foundry's steps on H100 say, most of all those of long sequences. Published:
# FlashAttention-2 is 1.5 to 2 times slower there than kernels for it (arXiv:2407.08608)
PORTED = 2.2

# measured by others
ANY_LOW, ANY_HIGH = 0.904, 1.581  # of all sources
STACKS: Mapping[Stack, StackProfile] = {
    "megatron-core": StackProfile(
        {
            "flagperf_nvidia": 0.970,
            "korthikanti22": 0.907,
            "megatron_bridge": 0.966,
            "megatron_sc21": 0.966,
            "nemo_24": 0.959,
            "nemo_longctx": 1.004,
        },
        0.869,
        1.060,
        whole_blocks=True,
        gathers_again=True,
    ),
    "megatron-deepspeed": StackProfile(
        {"bloom_jz": 1.257, "vtrain_single": 0.952}, 0.852, 1.435, whole_blocks=True
    ),
    "torchtitan": StackProfile({"torchtitan_h100": 1.117}, 0.960, 1.477, attention=PORTED),
    "llm-foundry": StackProfile(
        {"llm_foundry": 0.975}, 0.871, 1.114, whole_blocks=True, attention=PORTED
    ),
    "internevo": StackProfile(
        {"internevo": 1.041}, 0.987, 1.264, whole_blocks=True, attention=PORTED
    ),
}
LEAST_SPREAD = 1.2  # chosen: of one source on few clusters, either way


def stack_ratios(stack: Stack) -> tuple[float, ...]:
    """The ratios of a stack's sources. Raises SetupError for an unknown stack."""
    return tuple(_profile(stack).ratios.values())


def whole_blocks(stack: Stack | None) -> bool:
    """Whether `full` recomputation runs all ops of a block again."""
    return stack is not None and _profile(stack).whole_blocks


def gathers_again(stack: Stack) -> bool:
    """Whether inputs of tensor parallelism are gathered again in the backward pass."""
    return _profile(stack).gathers_again


def attention_ratio(stack: Stack) -> float:
    """The factor by which fused attention takes longer on devices newer than A100."""
    return _profile(stack).attention


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
