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
    partial=True,
)

Tree = dict[str, object]
# parallel_optimizer_threshold: KiB, MindSpore's default
_THRESHOLD_KB = 64
_SEMI_AUTO = 1  # parallel_mode: 0 data parallel, 1 semi-auto, 2 auto, 3 hybrid


def sections(uniform: Uniform) -> Tree:
    """The options by section."""
    options: Tree = {
        "use_parallel": True,
        "parallel_config": _parallel_config(uniform),
        "parallel": _parallel(uniform),
        "runner_config": _runner_config(uniform),
    }
    if uniform.copies > 1:
        options["micro_batch_interleave_num"] = uniform.copies
    model: Tree = {}
    if uniform.stages_per_rank > 1:
        model["pp_interleave_num"] = uniform.stages_per_rank
    if offsets := _offsets(uniform):
        model["offset"] = _by_rank(offsets, uniform)
    if model:
        options["model"] = {"model_config": model}
    options["recompute_config"] = _recompute_config(uniform)
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
            f"stages. Use {uniform.pipeline_ranks} microbatches or more"
        )
    if uniform.microbatches % uniform.copies:
        yield (
            f"micro_batch_interleave_num {uniform.copies} does not divide {uniform.microbatches} "
            "microbatches. Use a multiple"
        )
    if uniform.layers and min(uniform.layers) < 1:
        yield (
            f"{sum(uniform.layers)} layers in {len(uniform.layers)} stages: a stage has no layer. "
            "Use fewer stages"
        )
    if uniform.is_zigzag:
        yield (
            "the order of the sequence: a layout of MindSpore cuts it into contiguous parts, so "
            "that the last rank of context_parallel works longest. Apply the order of the plan "
            "where the data is loaded and positions and masks are computed"
        )
    if uniform.schedule == "zb_v" and _offsets(uniform):
        yield (
            f"stages of {', '.join(map(str, uniform.layers))} layers: `model_config.offset` of "
            "the schedule zero_bubble_v is not known. Use stages of equally many layers"
        )
    if uniform.expert_dispatch == "node" and uniform.degrees.ep > 1:
        yield "one copy of a token for each node: it sends one for each chosen expert"
    if uniform.precision != "graph":
        yield f"{uniform.precision}: these options train in the dtypes of the model"


def remarks(uniform: Uniform) -> Iterator[str]:
    if _gradient_groups(uniform) is not None:
        yield (
            f"gradient_aggregation_group {_gradient_groups(uniform)}: MindFormers fuses the "
            "collectives of whole layers, the plan those of its buckets"
        )


def _parallel_config(uniform: Uniform) -> Tree:
    degrees = uniform.degrees
    config: Tree = {
        "data_parallel": degrees.dp or 1,
        "model_parallel": degrees.tp,
        "context_parallel": degrees.cp,
        "expert_parallel": degrees.ep,
        "pipeline_stage": uniform.pipeline_ranks,
        "micro_batch_num": uniform.microbatches if uniform.pipeline_ranks > 1 else 1,
        "use_seq_parallel": degrees.sequence_parallel,
        "vocab_emb_dp": degrees.tp == 1,
    }
    if (groups := _gradient_groups(uniform)) is not None:
        config["gradient_aggregation_group"] = groups
    return config


def _parallel(uniform: Uniform) -> Tree:
    degrees = uniform.degrees
    parallel: Tree = {
        "parallel_mode": _SEMI_AUTO,
        "full_batch": True,  # semi-auto mode cuts the batch that every device loads
        "search_mode": "sharding_propagation",  # of mode 2 only
        "gradients_mean": False,  # the loss is the mean
        "enable_alltoall": degrees.ep > 1,
        "enable_parallel_optimizer": degrees.zero > 0,
    }
    if degrees.zero:
        sharding: Tree = {
            "gradient_accumulation_shard": degrees.zero >= 2,
            "parallel_optimizer_threshold": _THRESHOLD_KB,
        }
        if uniform.zero_size < (degrees.dp or 1) * degrees.cp:
            sharding["optimizer_weight_shard_size"] = uniform.zero_size
        parallel["parallel_optimizer_config"] = sharding
    if uniform.stages_per_rank > 1:
        interleaved: Tree = {"pipeline_interleave": True, "pipeline_scheduler": _scheduler(uniform)}
        parallel["pipeline_config"] = interleaved
    return parallel


def _runner_config(uniform: Uniform) -> Tree:
    runner: Tree = {"batch_size": uniform.microbatch_size}
    if uniform.pipeline_ranks == 1:
        runner["gradient_accumulation_steps"] = uniform.microbatches // uniform.copies
    return runner


def _recompute_config(uniform: Uniform) -> Tree:
    """`recompute` is a flag, or the number of layers of every stage, from the first."""
    is_full = uniform.recompute == "full"
    config: Tree = {
        "recompute": is_full,
        "select_recompute": False,  # the default recomputes the activation of the MLP
    }
    if is_full:
        config["parallel_optimizer_comm_recompute"] = uniform.degrees.zero == 3
        config["mp_comm_recompute"] = uniform.repeats_communication
        if uniform.recomputed_layers is not None and uniform.layers:
            counts = [min(uniform.recomputed_layers, layers) for layers in uniform.layers]
            config["recompute"] = _by_rank(counts, uniform)
    return config


def _gradient_groups(uniform: Uniform) -> int | None:
    """The groups of layers whose gradients are reduced together; pipelines have no such option."""
    if uniform.gradient_buckets is None or uniform.pipeline_ranks > 1:
        return None
    return min(uniform.gradient_buckets, max(sum(uniform.layers), 1))


def _offsets(uniform: Uniform) -> list[int]:
    """The layers of each stage beyond the whole mean; empty if all stages have equally many."""
    if len(set(uniform.layers)) < 2:
        return []
    mean = sum(uniform.layers) // len(uniform.layers)
    return [layers - mean for layers in uniform.layers]


def _by_rank(numbers: list[int], uniform: Uniform) -> list[object]:
    """One number for each stage; with interleaving, one list for each round of stages."""
    if uniform.stages_per_rank == 1:
        return list(numbers)
    ranks = uniform.pipeline_ranks
    return [list(numbers[first : first + ranks]) for first in range(0, len(numbers), ranks)]


def _scheduler(uniform: Uniform) -> str:
    return "zero_bubble_v" if uniform.schedule == "zb_v" else "1f1b"
