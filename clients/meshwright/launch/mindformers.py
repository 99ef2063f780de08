"""A MindFormers YAML, by the names of its configs/general/llm_pretrain_moe_template.yaml (2025).

https://github.com/mindspore-lab/mindformers. `parallel_config.optimizer_shard` has no effect since
r0.7, as its TransformerOpParallelConfig says: `parallel.enable_parallel_optimizer` is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwright.schema.uniform import Uniform

Tree = dict[str, object]
# parallel_optimizer_threshold: KiB, MindSpore's default
_THRESHOLD_KB = 64


def sections(own: Uniform) -> Tree:
    """The options by section."""
    degrees, dp = own.degrees, own.degrees.dp or 1
    config: Tree = {
        "data_parallel": dp,
        "model_parallel": degrees.tp,
        "context_parallel": degrees.cp,
        "expert_parallel": degrees.ep,
        "pipeline_stage": own.pipeline_ranks,
        "micro_batch_num": own.microbatches if own.pipeline_ranks > 1 else 1,
        "use_seq_parallel": degrees.sequence_parallel,
        "vocab_emb_dp": degrees.tp == 1,
    }
    runner: Tree = {"batch_size": own.microbatch_size}
    if own.pipeline_ranks == 1:
        runner["gradient_accumulation_steps"] = own.microbatches // own.copies
    parallel: Tree = {
        "parallel_mode": 1,  # semi-auto
        "enable_alltoall": degrees.ep > 1,
        "enable_parallel_optimizer": degrees.zero > 0,
    }
    if degrees.zero:
        sharding: Tree = {
            "gradient_accumulation_shard": degrees.zero >= 2,
            "parallel_optimizer_threshold": _THRESHOLD_KB,
        }
        if own.zero_size < dp * degrees.cp:
            sharding["optimizer_weight_shard_size"] = own.zero_size
        parallel["parallel_optimizer_config"] = sharding
    found: Tree = {"parallel_config": config, "parallel": parallel, "runner_config": runner}
    if own.copies > 1:
        found["micro_batch_interleave_num"] = own.copies
    if own.stages_per_rank > 1:
        interleaved: Tree = {"pipeline_interleave": True, "pipeline_scheduler": _scheduler(own)}
        parallel["pipeline_config"] = interleaved
        found["model"] = {"model_config": {"pp_interleave_num": own.stages_per_rank}}
    found["recompute_config"] = {
        "recompute": own.recompute == "full",
        "select_recompute": own.recompute == "selective",
    }
    return found


def text(own: Uniform) -> str:
    return "\n".join(_lines(sections(own), "")) + "\n"


def lost(own: Uniform) -> Iterator[str]:
    """What these options cannot say."""
    if own.degrees.zero in (1, 2):
        yield (
            f"ZeRO-{own.degrees.zero}: MindSpore's optimizer parallel cuts the parameters at rest "
            "too and gathers them once a step; `hsdp(optimizer_level=...)` of its functional "
            "interface says more"
        )
    if own.schedule in ("zb_h1", "gpipe"):
        yield f"schedule {own.schedule}: without interleaving it runs 1f1b"
    if own.is_zigzag:
        yield (
            "the order of the sequence: a layout of MindSpore cuts it into contiguous parts, so "
            "that the last rank of context_parallel works longest; what the plan says of the order "
            "is for whoever loads the data and makes positions and masks"
        )
    if len(set(own.layers)) > 1:
        yield (
            f"stages of {', '.join(map(str, own.layers))} layers: `model_config.offset` is the "
            "difference of each stage to the mean"
        )
    if own.recompute not in ("none", "selective", "full"):
        yield f"it does not recompute {own.recompute!r}"


def _scheduler(own: Uniform) -> str:
    return "zero_bubble_v" if own.schedule == "zb_v" else "1f1b"


def _lines(tree: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, bool):
            yield f"{indent}{key}: {'True' if value else 'False'}"
        elif isinstance(value, str):
            yield f"{indent}{key}: '{value}'"
        else:
            yield f"{indent}{key}: {value}"
