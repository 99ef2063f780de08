"""Megatron-LM's arguments, by the names of its megatron/training/arguments.py (main, 2026).

https://github.com/NVIDIA/Megatron-LM; ZeRO stages 2 and 3 are Megatron-FSDP's, whose page
(megatron/core/distributed/fsdp) says which other flags it needs.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.schema.uniform import Uniform

_FSDP = {2: "optim_grads", 3: "optim_grads_params"}
_RECOMPUTE = {"selective": ("selective",), "full": ("full", "uniform", "1")}


def arguments(own: Uniform) -> list[tuple[str, str]]:
    """Each argument with its value, "" for flags."""
    degrees = own.degrees
    found = [
        ("--tensor-model-parallel-size", str(degrees.tp)),
        ("--pipeline-model-parallel-size", str(own.pipeline_ranks)),
        ("--context-parallel-size", str(degrees.cp)),
        ("--expert-model-parallel-size", str(degrees.ep)),
    ]
    if degrees.ep > 1:
        found.append(("--expert-tensor-parallel-size", str(degrees.tp)))
        if own.copies > 1:
            found.append(("--overlap-moe-expert-parallel-comm", ""))
    if degrees.sequence_parallel:
        found.append(("--sequence-parallel", ""))
    if own.stages_per_rank > 1 and own.schedule == "interleaved_1f1b":
        found.append(("--num-virtual-stages-per-pipeline-rank", str(own.stages_per_rank)))
    found += _uneven_ends(own)
    found += _sharding(own)
    found += [("--micro-batch-size", str(own.microbatch_size))]
    if own.global_batch is not None:
        found.append(("--global-batch-size", str(own.global_batch)))
    if own.sequence is not None:
        found.append(("--seq-length", str(own.sequence)))
    names = ("--recompute-granularity", "--recompute-method", "--recompute-num-layers")
    found += zip(names, _RECOMPUTE.get(own.recompute, ()), strict=False)
    return found


def text(own: Uniform) -> str:
    """One argument a line, as a shell takes them."""
    return " \\\n".join(f"{name} {value}".rstrip() for name, value in arguments(own)) + "\n"


def lost(own: Uniform) -> Iterator[str]:
    """What these arguments cannot say."""
    if own.schedule not in (None, "1f1b", "interleaved_1f1b"):
        yield f"Megatron-LM has no schedule {own.schedule}; without it runs 1f1b"
    if len(set(own.layers)) > 1 and not _uneven_ends(own):
        yield f"stages of {', '.join(map(str, own.layers))} layers: it wants as many in each"
    if own.degrees.cp > 1 and not own.is_zigzag:
        yield (
            "sequences in contiguous parts: it gives every rank of cp an early and a late chunk, "
            "which makes causal attention faster than the plan says (sequence_order zigzag)"
        )
    if own.copies > 1:
        experts = own.degrees.ep > 1
        yield (
            f"{own.copies} microbatches that take turns: "
            + (
                "--overlap-moe-expert-parallel-comm runs the forward pass of one beside the "
                "backward pass of another and hides the experts' all-to-alls only"
                if experts
                else "it runs one after the other; --tp-comm-overlap hides a product's "
                "collective behind the product itself"
            )
        )
    if own.recompute not in ("none", *_RECOMPUTE):
        yield f"it does not recompute {own.recompute!r}"
    if own.degrees.zero >= 2 and own.zero_size < (own.degrees.dp or 1) * own.degrees.cp:
        yield f"shards over {own.zero_size} devices only: Megatron-FSDP is asked to use all of dp"


def _uneven_ends(own: Uniform) -> list[tuple[str, str]]:
    """Where only the first and the last stage have another number of layers than the rest."""
    if own.stages_per_rank > 1 or len(own.layers) < 3 or len(set(own.layers[1:-1])) > 1:
        return []
    first, middle, last = own.layers[0], own.layers[1], own.layers[-1]
    return [
        (f"--decoder-{end}-pipeline-num-layers", str(count))
        for end, count in (("first", first), ("last", last))
        if count != middle
    ]


def _sharding(own: Uniform) -> list[tuple[str, str]]:
    zero, everyone = own.degrees.zero, (own.degrees.dp or 1) * own.degrees.cp
    if zero == 0:
        return []
    found = [("--use-distributed-optimizer", "")]
    if zero == 1:
        if own.zero_size < everyone:
            count = str(everyone // own.zero_size)
            found.append(("--num-distributed-optimizer-instances", count))
        return found
    return [
        *found,
        ("--use-megatron-fsdp", ""),
        ("--data-parallel-sharding-strategy", _FSDP[zero]),
        ("--no-gradient-accumulation-fusion", ""),
        ("--ckpt-format", "fsdp_dtensor"),
    ]
