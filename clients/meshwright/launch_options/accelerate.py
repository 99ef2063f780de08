"""The YAML of `accelerate launch`, by the names of Accelerate 1.15: FSDP2 and ParallelismConfig.

Source: https://github.com/huggingface/accelerate (utils/launch.py, parallelism_config.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwright.launch_options.choices import LauncherChoices
from meshwright.launch_options.pytorch import (
    contiguous_sequences,
    other_shards,
    shard_degree,
    uneven_shards,
)
from meshwright.launch_options.yaml_text import yaml_text
from meshwright.schema.uniform_degrees import Uniform

CHOICES = LauncherChoices(
    zero=(2, 3), tensor=True, context=True, sequence_parallel=False, hybrid=True
)  # fmt: skip

_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}


def sections(uniform: Uniform) -> Mapping[str, object]:
    """The options by section."""
    degrees, dp = uniform.degrees, uniform.degrees.dp or 1
    shard = shard_degree(uniform)
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": _DTYPES.get(uniform.dtype or "", "no"),
        "num_processes": dp * degrees.tp * degrees.cp,
        "parallelism_config": {
            "parallelism_config_dp_replicate_size": dp // shard,
            "parallelism_config_dp_shard_size": shard,
            "parallelism_config_tp_size": degrees.tp,
            "parallelism_config_cp_size": degrees.cp,
        },
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": degrees.zero == 3,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_activation_checkpointing": uniform.recompute == "full",
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        },
    }


def text(uniform: Uniform) -> str:
    return yaml_text(sections(uniform))


def remarks(uniform: Uniform) -> Iterator[str]:
    """What the training script must do besides."""
    yield (
        f"the file has no batch: load {uniform.microbatch_size} sequence(s) on each device, with "
        f"Accelerator(gradient_accumulation_steps={uniform.microbatches})"
    )
    if uniform.degrees.tp > 1:
        yield (
            "the model has to be loaded with its plan of tensor parallelism: "
            'from_pretrained(..., tp_plan="auto", device_mesh=...)'
        )


def lost(uniform: Uniform) -> Iterator[str]:
    """The parts of the plan that these options cannot express."""
    degrees, dp = uniform.degrees, uniform.degrees.dp or 1
    shard = shard_degree(uniform)
    yield from uneven_shards(uniform)
    if degrees.zero < 2 and dp * degrees.cp > 1:
        yield f"ZeRO-{degrees.zero}: its FSDP shards gradients too (ZeRO-2)"
    else:
        yield from other_shards(uniform)
    if degrees.tp * degrees.cp > 1 and shard == 1 and dp > 1:
        yield (
            f"dp {dp} replicated beside tp {degrees.tp} and cp {degrees.cp}: it refuses replicas "
            "without shards"
        )
    if degrees.ep > 1:
        yield f"ep {degrees.ep}: it has no expert parallelism"
    if uniform.pipeline_ranks > 1:
        yield f"{uniform.pipeline_ranks} pipeline ranks: it trains without pipelines"
    if degrees.sequence_parallel:
        yield "sequence parallelism: its tensor parallelism comes without"
    yield from contiguous_sequences(uniform)
    if uniform.copies > 1:
        yield f"{uniform.copies} microbatches that take turns: it runs one after the other"
    if uniform.precision != "graph":
        yield f"{uniform.precision}: this file trains in the dtypes of the model"
