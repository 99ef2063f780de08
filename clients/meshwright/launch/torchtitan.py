"""torchtitan's TOML, by the names of its torchtitan/config/job_config.py (v0.1 and v0.2).

https://github.com/pytorch/torchtitan. Later versions are configured in Python: the sections are the
dataclasses there, and `pipeline_parallel_microbatch_size` became `num_pp_microbatches`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwright.schema.uniform import Uniform

Value = int | str
_SCHEDULES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved_1f1b": "Interleaved1F1B",
    "zb_v": "ZBVZeroBubble",
}
_RECOMPUTE = ("none", "selective", "full")


def sections(own: Uniform) -> dict[str, dict[str, Value]]:
    """The options by section."""
    degrees, dp = own.degrees, own.degrees.dp or 1
    shard = min(own.zero_size, dp) if degrees.zero else 1
    parallelism: dict[str, Value] = {
        "data_parallel_replicate_degree": dp // shard,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": "always" if degrees.zero == 3 else "never",
        "tensor_parallel_degree": degrees.tp,
        "context_parallel_degree": degrees.cp,
        "expert_parallel_degree": degrees.ep,
        "pipeline_parallel_degree": own.pipeline_ranks,
    }
    local = own.microbatch_size
    if own.pipeline_ranks > 1:
        parallelism["pipeline_parallel_schedule"] = _SCHEDULES.get(own.schedule or "", "1F1B")
        parallelism["pipeline_parallel_microbatch_size"] = own.microbatch_size
        if len(set(own.layers)) == 1:
            parallelism["pipeline_parallel_layers_per_stage"] = own.layers[0]
        local *= own.microbatches
    training: dict[str, Value] = {"local_batch_size": local}
    if own.global_batch is not None:
        training["global_batch_size"] = own.global_batch
    if own.sequence is not None:
        training["seq_len"] = own.sequence
    mode = own.recompute if own.recompute in _RECOMPUTE else "none"
    return {
        "training": training,
        "parallelism": parallelism,
        "activation_checkpoint": {"mode": mode},
    }


def text(own: Uniform) -> str:
    return "\n".join(_section(name, options) for name, options in sections(own).items())


def lost(own: Uniform) -> Iterator[str]:
    """What these options cannot say."""
    degrees = own.degrees
    if degrees.zero == 1:
        yield "torchtitan has no ZeRO-1: with FSDP gradients lie sharded too (ZeRO-2)"
    if degrees.tp > 1 and not degrees.sequence_parallel:
        yield "its tensor parallelism comes with sequence parallelism"
    if own.schedule is not None and own.schedule not in _SCHEDULES:
        yield f"it has no schedule {own.schedule}; 1F1B is written"
    if len(set(own.layers)) > 1:
        yield (
            f"stages of {', '.join(map(str, own.layers))} layers: name their modules in "
            "pipeline_parallel_module_fqns_per_model_part"
        )
    if degrees.cp > 1 and not own.is_zigzag:
        yield (
            "sequences in contiguous parts: PyTorch's context parallelism gives every rank an "
            "early and a late chunk, which makes causal attention faster than the plan says "
            "(sequence_order zigzag)"
        )
    if own.copies > 1:
        yield f"{own.copies} microbatches that take turns: it runs one after the other"
    if own.recompute not in _RECOMPUTE:
        yield f"it does not recompute {own.recompute!r}"


def _section(name: str, options: Mapping[str, Value]) -> str:
    lines = [f"{key} = {_value(value)}" for key, value in options.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def _value(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
