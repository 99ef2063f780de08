"""What a plan can be written for: by the command line and by the service."""

from typing import Literal

EveryTarget = Literal[
    "dtensor", "jax", "mindspore", "mindspore-network", "mindspore-strategies", "megatron",
    "mindformers", "torchtitan",
]  # fmt: skip
