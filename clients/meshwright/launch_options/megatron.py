"""Megatron-LM's arguments, by the names of its megatron/training/arguments.py (main, 2026).

Source: https://github.com/NVIDIA/Megatron-LM. ZeRO stages 2 and 3 use Megatron-FSDP; its page
(megatron/core/distributed/fsdp) lists the other flags that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.launch_options.choices import LauncherChoices
from meshwright.schema.uniform_degrees import Uniform

# Megatron-FSDP (ZeRO-3) is documented without pipelines
CHOICES = LauncherChoices(
    zero=(1, 3),
    zero_of_pipelines=(1,),
    schedules=("1f1b", "interleaved_1f1b"),
    recompute=("none", "selective", "full"),
    tensor=True,
    context=True,
    expert=True,
    partial=True,
)

_FSDP = {2: "optim_grads", 3: "optim_grads_params"}
# precision -> recipe and number format; blocks have scales enough for gradients in e4m3
_FP8 = {
    "fp8_tensorwise": ("tensorwise", "hybrid"),
    "fp8_blockwise": ("blockwise", "e4m3"),
    "mxfp8": ("mxfp8", "e4m3"),
}
_DTYPES = {"bfloat16": "--bf16", "float16": "--fp16"}
_RECOMPUTE = {"selective": ("selective",), "full": ("full", "uniform", "1")}


def arguments(uniform: Uniform) -> list[tuple[str, str]]:
    """Each argument with its value; flags have the value ""."""
    degrees = uniform.degrees
    options = [
        ("--tensor-model-parallel-size", str(degrees.tp)),
        ("--pipeline-model-parallel-size", str(uniform.pipeline_ranks)),
        ("--context-parallel-size", str(degrees.cp)),
        ("--expert-model-parallel-size", str(degrees.ep)),
    ]
    if degrees.ep > 1:
        options.append(("--expert-tensor-parallel-size", str(degrees.tp)))
        if uniform.expert_dispatch == "node":
            options += [("--moe-token-dispatcher-type", "flex"), ("--moe-enable-deepep", "")]
        if uniform.copies > 1:
            options.append(("--overlap-moe-expert-parallel-comm", ""))
    if degrees.sequence_parallel:
        options.append(("--sequence-parallel", ""))
    options += _stages(uniform)
    options += _sharding(uniform)
    options += [("--micro-batch-size", str(uniform.microbatch_size))]
    if uniform.global_batch is not None:
        options.append(("--global-batch-size", str(uniform.global_batch)))
    if uniform.sequence is not None:
        options.append(("--seq-length", str(uniform.sequence)))
    if uniform.padded_vocabulary is not None:
        divisor = str(uniform.padded_vocabulary // degrees.tp)
        options.append(("--make-vocab-size-divisible-by", divisor))
    if uniform.dtype in _DTYPES:
        options.append((_DTYPES[uniform.dtype], ""))
    names = ("--recompute-granularity", "--recompute-method", "--recompute-num-layers")
    recompute = _RECOMPUTE.get(uniform.recompute, ())
    if uniform.recomputed_layers is not None:
        recompute = ("full", "block", str(uniform.recomputed_layers))
    options += zip(names, recompute, strict=False)
    if uniform.precision in _FP8:
        recipe, format_ = _FP8[uniform.precision]
        options += [("--fp8-recipe", recipe), ("--fp8-format", format_), ("--fp8-param-gather", "")]
    return options


def text(uniform: Uniform) -> str:
    """The arguments in shell syntax, one per line."""
    return " \\\n".join(f"{name} {value}".rstrip() for name, value in arguments(uniform)) + "\n"


def lost(uniform: Uniform) -> Iterator[str]:
    """The parts of the plan that these arguments cannot express."""
    if uniform.schedule not in (None, "1f1b", "interleaved_1f1b"):
        yield f"Megatron-LM has no schedule {uniform.schedule}; without it runs 1f1b"
    if uniform.schedule == "interleaved_1f1b" and uniform.microbatches % uniform.pipeline_ranks:
        yield (
            f"{uniform.microbatches} microbatches on {uniform.pipeline_ranks} pipeline ranks: its "
            f"interleaved schedule refuses all but multiples of {uniform.pipeline_ranks}"
        )
    if uniform.degrees.ep > 1 and uniform.degrees.tp > 1 and not uniform.degrees.sequence_parallel:
        yield "it refuses experts with tensor parallelism but without sequence parallelism"
    if (
        uniform.degrees.cp > 1
        and uniform.sequence is not None
        and uniform.sequence % (2 * uniform.degrees.cp)
    ):
        yield (
            f"a sequence of {uniform.sequence} over cp {uniform.degrees.cp}: it refuses all but "
            f"multiples of {2 * uniform.degrees.cp}"
        )
    replicas = (uniform.degrees.dp or 1) * uniform.degrees.cp
    if uniform.degrees.zero == 1 and replicas % uniform.zero_size:
        yield (
            f"optimizer state over {uniform.zero_size} devices, which do not divide "
            f"dp·cp {replicas}"
        )
    if uniform.degrees.cp > 1 and not uniform.is_zigzag:
        yield (
            "sequences in contiguous parts: it gives every rank of cp an early and a late chunk, "
            "which makes causal attention faster than in the plan (sequence_order zigzag)"
        )
    if uniform.copies > 1:
        experts = uniform.degrees.ep > 1
        yield (
            f"{uniform.copies} microbatches that take turns: "
            + (
                "--overlap-moe-expert-parallel-comm runs the forward pass of one beside the "
                "backward pass of another and hides the experts' all-to-alls only"
                if experts
                else "it runs one after the other; --tp-comm-overlap hides a product's "
                "collective behind the product itself"
            )
        )
    if uniform.precision in _FP8 and uniform.degrees.ep > 1:
        yield "tokens sent to experts in 8 bits: its dispatchers send 16 bits"
    if (
        uniform.degrees.zero >= 2
        and uniform.zero_size < (uniform.degrees.dp or 1) * uniform.degrees.cp
    ):
        yield f"shards over {uniform.zero_size} devices only: Megatron-FSDP uses all of dp"


def _stages(uniform: Uniform) -> list[tuple[str, str]]:
    """The options for the stages of a pipeline: equal ones, others at the ends, or all of them."""
    layers, virtual = uniform.layers, uniform.stages_per_rank
    if len(set(layers)) <= 1:
        if virtual > 1 and uniform.schedule == "interleaved_1f1b":
            return [("--num-virtual-stages-per-pipeline-rank", str(virtual))]
        return []
    first, *others, last = layers
    # with these options, every stage has a layer, and a rank has one stage
    if virtual > 1 or len(set(others)) != 1 or not min(layers):
        return [("--pipeline-model-parallel-layout", f'"{_layout(layers)}"')]
    return [
        (f"--decoder-{end}-pipeline-num-layers", str(count))
        for end, count in (("first", first), ("last", last))
        if count != others[0]
    ]


def _layout(layers: Sequence[int]) -> str:
    """The layers of all stages in the notation of PipelineParallelLayerLayout, as `Et*3|t*4|tL`."""
    stages = [f"t*{count}" if count > 1 else "t" * count for count in layers]
    return "|".join(["E" + stages[0], *stages[1:-1], stages[-1] + "L"])


def _sharding(uniform: Uniform) -> list[tuple[str, str]]:
    zero, replicas = uniform.degrees.zero, (uniform.degrees.dp or 1) * uniform.degrees.cp
    if zero == 0:
        return []
    options = [("--use-distributed-optimizer", "")]
    if zero == 1:
        if uniform.zero_size < replicas and replicas % uniform.zero_size == 0:
            count = str(replicas // uniform.zero_size)
            options.append(("--num-distributed-optimizer-instances", count))
        return options
    return [
        *options,
        ("--use-megatron-fsdp", ""),
        ("--data-parallel-sharding-strategy", _FSDP[zero]),
        ("--no-gradient-accumulation-fusion", ""),
        ("--ckpt-format", "fsdp_dtensor"),
    ]
