"""A MindFormers YAML, by the names of its configs/general/llm_pretrain_moe_template.yaml (2025).

Source: https://github.com/mindspore-lab/mindformers. By its TransformerOpParallelConfig,
`parallel.enable_parallel_optimizer` replaces `parallel_config.optimizer_shard` since r0.7.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.launch_options.choices import LauncherChoices
from meshwright.launch_options.yaml_text import yaml_text
from meshwright.schema.uniform_degrees import Uniform

CHOICES = LauncherChoices(
    zero=(0, 3),
    zero_of_pipelines=(0, 3),
    schedules=("1f1b", "interleaved_1f1b", "zb_v"),
    tensor=True,
    context=True,
    expert=True,
)

Tree = dict[str, object]
# parallel_optimizer_threshold: KiB, MindSpore's default
_THRESHOLD_KB = 64


def sections(uniform: Uniform) -> Tree:
    """The options by section."""
    degrees, dp = uniform.degrees, uniform.degrees.dp or 1
    config: Tree = {
        "data_parallel": dp,
        "model_parallel": degrees.tp,
        "context_parallel": degrees.cp,
        "expert_parallel": degrees.ep,
        "pipeline_stage": uniform.pipeline_ranks,
        "micro_batch_num": uniform.microbatches if uniform.pipeline_ranks > 1 else 1,
        "use_seq_parallel": degrees.sequence_parallel,
        "vocab_emb_dp": degrees.tp == 1,
    }
    runner: Tree = {"batch_size": uniform.microbatch_size}
    if uniform.pipeline_ranks == 1:
        runner["gradient_accumulation_steps"] = uniform.microbatches // uniform.copies
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
        if uniform.zero_size < dp * degrees.cp:
            sharding["optimizer_weight_shard_size"] = uniform.zero_size
        parallel["parallel_optimizer_config"] = sharding
    options: Tree = {"parallel_config": config, "parallel": parallel, "runner_config": runner}
    if uniform.copies > 1:
        options["micro_batch_interleave_num"] = uniform.copies
    if uniform.stages_per_rank > 1:
        interleaved: Tree = {"pipeline_interleave": True, "pipeline_scheduler": _scheduler(uniform)}
        parallel["pipeline_config"] = interleaved
        options["model"] = {"model_config": {"pp_interleave_num": uniform.stages_per_rank}}
    options["recompute_config"] = {
        "recompute": uniform.recompute == "full",
        "select_recompute": False,  # the default recomputes the activation of the MLP
    }
    return options


def text(uniform: Uniform) -> str:
    return yaml_text(sections(uniform))


def lost(uniform: Uniform) -> Iterator[str]:
    """The parts of the plan that these options cannot express."""
    if uniform.degrees.zero in (1, 2):
        yield (
            f"ZeRO-{uniform.degrees.zero}: MindSpore's optimizer parallel cuts the parameters at "
            "rest too and gathers them once a step; `hsdp(optimizer_level=...)` of its functional "
            "interface is more precise"
        )
    if uniform.schedule in ("zb_h1", "gpipe"):
        yield f"schedule {uniform.schedule}: without interleaving it runs 1f1b"
    if uniform.microbatches < uniform.pipeline_ranks:
        yield (
            f"micro_batch_num {uniform.microbatches} is less than pipeline_stage "
            f"{uniform.pipeline_ranks}: MindSpore refuses a pipeline of fewer microbatches than "
            "stages"
        )
    if uniform.is_zigzag:
        yield (
            "the order of the sequence: a layout of MindSpore cuts it into contiguous parts, so "
            "that the last rank of context_parallel works longest. Apply the order of the plan "
            "where the data is loaded and positions and masks are computed"
        )
    if len(set(uniform.layers)) > 1:
        yield (
            f"stages of {', '.join(map(str, uniform.layers))} layers: `model_config.offset` is the "
            "difference of each stage to the mean"
        )
    if uniform.expert_dispatch == "node" and uniform.degrees.ep > 1:
        yield "one copy of a token for each node: it sends one for each chosen expert"
    if uniform.precision != "graph":
        yield f"{uniform.precision}: these options train in the dtypes of the model"


def _scheduler(uniform: Uniform) -> str:
    return "zero_bubble_v" if uniform.schedule == "zb_v" else "1f1b"
