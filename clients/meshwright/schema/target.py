"""Targets: frameworks to whose own strategies a search may be restricted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from meshwright.schema.setup import Setup
from meshwright.schema.stack import Stack

Target = Literal[
    "megatron-core", "torchtitan", "fsdp2", "accelerate", "deepspeed", "mindformers"
]  # fmt: skip
TARGETS: tuple[Target, ...] = get_args(Target)

# The stack of each framework. torchtitan's is PyTorch's FSDP2, which Accelerate runs too.
# DeepSpeed's own ZeRO is measured in Megatron-DeepSpeed only, and MindFormers nowhere.
TARGET_STACKS: Mapping[Target, Stack | None] = {
    "megatron-core": "megatron-core",
    "torchtitan": "torchtitan",
    "fsdp2": "torchtitan",
    "accelerate": "torchtitan",
    "deepspeed": "megatron-deepspeed",
    "mindformers": None,
}


# what a framework does with sizes that its devices do not divide; MindSpore refuses them
_UNEVEN: Mapping[Target, str] = {
    "megatron-core": "pad",  # its vocabulary; the distributed optimizer shards flat buffers
    "torchtitan": "chunk",
    "fsdp2": "chunk",
    "accelerate": "chunk",
    "deepspeed": "chunk",
}


def setup_for(target: Target | None, setup: Setup) -> Setup:
    """The setup, with what the target implies where it says nothing.

    The stack is that of the target, and sizes that devices do not divide are cut as it cuts them.
    """
    if target is None:
        return setup
    implied = {"stack": TARGET_STACKS[target], "uneven": _UNEVEN.get(target)}
    said = setup.to_dict()
    more = {field: value for field, value in implied.items() if value and field not in said}
    return Setup.from_dict({**said, **more}) if more else setup
