"""DeepSpeed's JSON configuration, by the names of its configuration page (0.19).

Source: https://www.deepspeed.ai/docs/config-json. Its tensor, expert and pipeline parallelism are
written into the model, so that a file cannot state them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from meshwright.launch_options.choices import LauncherChoices
from meshwright.schema.uniform_degrees import Uniform

CHOICES = LauncherChoices(zero=(1, 2, 3))

_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}


def sections(uniform: Uniform) -> dict[str, object]:
    """The options by section."""
    options: dict[str, object] = {}
    if uniform.global_batch is not None:
        options["train_batch_size"] = uniform.global_batch
    options["train_micro_batch_size_per_gpu"] = uniform.microbatch_size
    options["gradient_accumulation_steps"] = uniform.microbatches
    if uniform.dtype in _DTYPES:
        options[_DTYPES[uniform.dtype]] = {"enabled": True}
    options["zero_optimization"] = {"stage": uniform.degrees.zero, "overlap_comm": True}
    return options


def text(uniform: Uniform) -> str:
    return json.dumps(sections(uniform), indent=2) + "\n"


def remarks(uniform: Uniform) -> Iterator[str]:
    """What the training script must do besides."""
    if uniform.recompute == "full":
        yield (
            "the file has no switch for recomputation: call model.gradient_checkpointing_enable(), "
            "or wrap each layer in deepspeed.checkpointing.checkpoint"
        )


def lost(uniform: Uniform) -> Iterator[str]:
    """The parts of the plan that these options cannot express."""
    degrees = uniform.degrees
    for name, size in (("tp", degrees.tp), ("cp", degrees.cp), ("ep", degrees.ep)):
        if size > 1:
            yield f"{name} {size}: the file states data parallelism only"
    if uniform.pipeline_ranks > 1:
        yield f"{uniform.pipeline_ranks} pipeline ranks: the file states data parallelism only"
    if degrees.zero and uniform.zero_size != (degrees.dp or 1):
        yield f"shards over {uniform.zero_size} devices only: its ZeRO uses all {degrees.dp}"
    if uniform.copies > 1:
        yield f"{uniform.copies} microbatches that take turns: it runs one after the other"
    if uniform.precision != "graph":
        yield f"{uniform.precision}: these options train in the dtypes of the model"
