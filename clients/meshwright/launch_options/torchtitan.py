"""torchtitan's TOML, by the names of its torchtitan/config/job_config.py (v0.2).

Source: https://github.com/pytorch/torchtitan. Later versions are configured in Python: the sections
are dataclasses, and `num_pp_microbatches` replaces `pipeline_parallel_microbatch_size`.
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
from meshwright.schema.uniform_degrees import Uniform

CHOICES = LauncherChoices(
    zero=(2, 3),
    zero_of_pipelines=(2, 3),
    schedules=("1f1b", "interleaved_1f1b", "zb_v"),
    tensor=True,
    context=True,
    expert=True,
    hybrid=True,
)

Value = int | str | bool | tuple[str, ...]
_SCHEDULES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved_1f1b": "Interleaved1F1B",
    "zb_v": "ZBVZeroBubble",
}
_HEAD = ("output",)  # its name of the vocabulary head, which stays in 16 bits
_QUANTIZE: Mapping[str, tuple[str, dict[str, Value]]] = {
    "fp8_tensorwise": (
        "quantize.linear.float8",
        {
            "enable_fsdp_float8_all_gather": True,
            "precompute_float8_dynamic_scale_for_fsdp": True,
            "filter_fqns": _HEAD,
        },
    ),
    "mxfp8": ("quantize.linear.mx", {"recipe_name": "mxfp8_cublas", "filter_fqns": _HEAD}),
}
_RECOMPUTE = ("none", "full")  # torchtitan's `selective` means every second layer, or some ops


def sections(uniform: Uniform) -> dict[str, dict[str, Value]]:
    """The options by section."""
    degrees, dp = uniform.degrees, uniform.degrees.dp or 1
    shard = shard_degree(uniform)
    parallelism: dict[str, Value] = {
        "data_parallel_replicate_degree": dp // shard,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": "always" if degrees.zero == 3 else "never",
        "tensor_parallel_degree": degrees.tp,
        "context_parallel_degree": degrees.cp,
        "expert_parallel_degree": degrees.ep,
        "pipeline_parallel_degree": uniform.pipeline_ranks,
    }
    if degrees.ep > 1:
        parallelism["expert_tensor_parallel_degree"] = degrees.tp
    local = uniform.microbatch_size
    if uniform.pipeline_ranks > 1:
        parallelism["pipeline_parallel_schedule"] = _SCHEDULES.get(uniform.schedule or "", "1F1B")
        parallelism["pipeline_parallel_microbatch_size"] = uniform.microbatch_size
        parallelism.update(_layers(uniform))
        local *= uniform.microbatches
    training: dict[str, Value] = {"local_batch_size": local}
    if uniform.global_batch is not None:
        training["global_batch_size"] = uniform.global_batch
    if uniform.sequence is not None:
        training["seq_len"] = uniform.sequence
    mode = uniform.recompute if uniform.recompute in _RECOMPUTE else "none"
    found: dict[str, dict[str, Value]] = {
        "training": training,
        "parallelism": parallelism,
        "activation_checkpoint": {"mode": mode},
    }
    if uniform.precision in _QUANTIZE:
        converter, options = _QUANTIZE[uniform.precision]
        found["model"] = {"converters": (converter,)}
        found[converter] = dict(options)
    return found


def text(uniform: Uniform) -> str:
    return "\n".join(_section(name, options) for name, options in sections(uniform).items())


def lost(uniform: Uniform) -> Iterator[str]:
    """The parts of the plan that these options cannot express."""
    degrees, shard = uniform.degrees, shard_degree(uniform)
    yield from uneven_shards(uniform)
    yield from other_shards(uniform)
    if not degrees.zero and degrees.cp > 1:
        yield "whole parameters on every device of cp: its FSDP shards them over cp"
    if shard * degrees.cp % degrees.ep or (degrees.ep > 1 and degrees.ep % degrees.cp):
        yield (
            f"ep {degrees.ep}: it takes multiples of cp {degrees.cp} that divide "
            f"data_parallel_shard_degree {shard} times cp"
        )
    yield from _microbatch_faults(uniform)
    if degrees.zero == 1:
        yield "torchtitan has no ZeRO-1: its FSDP shards gradients too (ZeRO-2)"
    if degrees.tp > 1 and not degrees.sequence_parallel:
        yield "its tensor parallelism comes with sequence parallelism"
    if uniform.schedule is not None and uniform.schedule not in _SCHEDULES:
        yield f"it has no schedule {uniform.schedule}; 1F1B is written"
    if uniform.layers and uniform.pipeline_ranks > 1 and not _layers(uniform):
        yield (
            f"stages of {', '.join(map(str, uniform.layers))} layers: name their modules in "
            "pipeline_parallel_module_fqns_per_model_part"
        )
    yield from contiguous_sequences(uniform)
    if uniform.expert_dispatch == "node" and uniform.degrees.ep > 1:
        yield "one copy of a token for each node: it sends one for each chosen expert"
    if uniform.copies > 1:
        yield f"{uniform.copies} microbatches that take turns: it runs one after the other"
    if uniform.precision == "fp8_blockwise":
        yield "fp8_blockwise: it has tensor-wise, row-wise and MX scales only; 16 bits are written"
    if uniform.precision == "mxfp8":
        yield "weights and activations sent in 8 bits: with MX scales it sends 16 bits"
    if uniform.precision in _QUANTIZE and degrees.ep > 1:
        yield (
            "experts in 8 bits: its converter of linear layers leaves them in 16. Add a "
            "quantize.grouped_mm converter"
        )


def _layers(uniform: Uniform) -> dict[str, Value]:
    """Layers of the stages, where only the first and the last have fewer than the others.

    By default, torchtitan places one layer fewer in both.
    """
    most = max(uniform.layers, default=0)
    if (
        not uniform.layers
        or any(count != most for count in uniform.layers[1:-1])
        or not min(uniform.layers)
    ):
        return {}
    return {
        "pipeline_parallel_layers_per_stage": most,
        "pipeline_parallel_first_stage_less_layers": most - uniform.layers[0],
        "pipeline_parallel_last_stage_less_layers": most - uniform.layers[-1],
    }


def _microbatch_faults(uniform: Uniform) -> Iterator[str]:
    """Messages for microbatch counts that torch.distributed.pipelining refuses."""
    ranks, count = uniform.pipeline_ranks, uniform.microbatches
    if ranks == 1:
        return
    stages = ranks * uniform.stages_per_rank
    if uniform.schedule in ("1f1b", "zb_v", "zb_h1") and count < stages:
        yield f"{count} microbatches: its schedule refuses fewer than the {stages} stages"
    rounds = max(1, count // ranks)
    if uniform.schedule == "interleaved_1f1b" and count % rounds:
        yield (
            f"{count} microbatches on {ranks} pipeline ranks: its interleaved schedule refuses all "
            f"but multiples of {rounds}"
        )


def _section(name: str, options: Mapping[str, Value]) -> str:
    lines = [f"{key} = {_value(value)}" for key, value in options.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
