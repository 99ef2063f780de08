"""Export of plans as launch options, with the parts that the options cannot express."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from meshwright.launch_options import (
    accelerate,
    deepspeed,
    fsdp2,
    megatron,
    mindformers,
    mindformers_check,
    torchtitan,
)
from meshwright.launch_options.choices import LauncherChoices
from meshwright.launch_options.uniform import uniform_of
from meshwright.schema import Graph, Model, Plan, Setup
from meshwright.schema.target import TARGETS, Target
from meshwright.schema.uniform_degrees import Uniform


def _nothing(*_: object) -> Iterator[str]:
    return iter(())


class _Launcher(NamedTuple):
    """What a module of this room has for its launcher."""

    choices: LauncherChoices
    text: Callable[[Uniform], str]
    lost: Callable[[Uniform], Iterator[str]]
    remarks: Callable[[Uniform], Iterator[str]] = _nothing
    lost_of_plan: Callable[[Plan, Graph, Setup | None], Iterator[str]] = _nothing
    check: Callable[[str, Plan, Graph, Setup | None, Uniform], Iterator[str]] = _nothing


_LAUNCHERS: Mapping[Target, _Launcher] = {
    "megatron-core": _Launcher(megatron.CHOICES, megatron.text, megatron.lost),
    "torchtitan": _Launcher(torchtitan.CHOICES, torchtitan.text, torchtitan.lost),
    "fsdp2": _Launcher(fsdp2.CHOICES, fsdp2.text, fsdp2.lost, lost_of_plan=fsdp2.lost_of_plan),
    "accelerate": _Launcher(
        accelerate.CHOICES, accelerate.text, accelerate.lost, accelerate.remarks
    ),
    "deepspeed": _Launcher(deepspeed.CHOICES, deepspeed.text, deepspeed.lost, deepspeed.remarks),
    "mindformers": _Launcher(
        mindformers.CHOICES,
        mindformers.text,
        mindformers.lost,
        mindformers.remarks,
        check=mindformers_check.check,
    ),
}
assert tuple(_LAUNCHERS) == TARGETS


_PADS_VOCABULARY: tuple[Target, ...] = ("megatron-core",)
# PyTorch's DTensor and fully_shard cut any size into chunks, as torch.chunk does
_CUTS_INTO_CHUNKS: tuple[Target, ...] = ("torchtitan", "fsdp2", "accelerate")
# the others of these shard flat buffers of many parameters
_SHARDS_ANY_SIZE: tuple[Target, ...] = (*_CUTS_INTO_CHUNKS, "megatron-core", "deepspeed")


class Launch(Model):
    """The launch options of a plan for one launcher.

    text: the launcher's file or command line. lost: each difference between the plan and the run of
    the launcher with this text, or the reason why the launcher refuses the text. remarks: what the
    training script must do besides.
    """

    plan: str
    launcher: Target
    uniform: Uniform
    text: str
    lost: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def launch_of(plan: Plan, launcher: Target, *, graph: Graph, setup: Setup | None = None) -> Launch:
    """The launch options of a plan's uniform part; PlanError where the graph is not the plan's."""
    uniform = uniform_of(plan, graph, setup)
    parts = () if launcher in _CUTS_INTO_CHUNKS else uniform.uneven_parts
    states = () if launcher in _SHARDS_ANY_SIZE else uniform.uneven_states
    differences = [
        f"{difference.name}{f' ({difference.count} of them)' if difference.count > 1 else ''}: "
        f"{difference.what}"
        for difference in (*uniform.differing, *parts, *states)
    ]
    text = text_of(uniform, launcher)
    return Launch(
        plan=plan.id,
        launcher=launcher,
        uniform=uniform,
        text=text,
        lost=(
            *lost_of(uniform, launcher),
            *_setup(setup),
            *differences,
            *_LAUNCHERS[launcher].lost_of_plan(plan, graph, setup),
            *_LAUNCHERS[launcher].check(text, plan, graph, setup, uniform),
        ),
        remarks=tuple(_LAUNCHERS[launcher].remarks(uniform)),
    )


def choices_of(launcher: Target) -> LauncherChoices:
    """The values that the options of a launcher have."""
    return _LAUNCHERS[launcher].choices


def text_of(uniform: Uniform, launcher: Target) -> str:
    """The options of a uniform strategy as the file or the command line of a launcher."""
    return _LAUNCHERS[launcher].text(uniform)


def lost_of(uniform: Uniform, launcher: Target) -> Iterator[str]:
    """The parts of a uniform strategy that a launcher cannot express, or refuses."""
    yield from _LAUNCHERS[launcher].lost(uniform)
    yield from _recompute(uniform, choices_of(launcher))
    yield from _sizes(uniform, launcher)


def _recompute(uniform: Uniform, choices: LauncherChoices) -> Iterator[str]:
    if uniform.recompute not in choices.recompute:
        yield f"it does not recompute {uniform.recompute!r}"
    if uniform.recomputed_layers is not None and not choices.partial:
        yield f"recomputation of {uniform.recomputed_layers} layers of each stage: it is for all"


def _sizes(uniform: Uniform, launcher: Target) -> Iterator[str]:
    """Sizes that no launcher accepts, or all but some."""
    dp = uniform.degrees.dp or 1
    if uniform.padded_vocabulary is not None and launcher not in _PADS_VOCABULARY:
        yield f"a vocabulary padded to {uniform.padded_vocabulary}: its options pad none"
    if uniform.global_batch is None:
        yield "the graph has no symbol `batch`: the batch sizes are unknown"
    elif uniform.microbatch_size * uniform.microbatches * dp != uniform.global_batch:
        yield (
            f"a batch of {uniform.global_batch} in {uniform.microbatches} microbatches over dp "
            f"{dp}: launchers cut it into equal parts of whole sequences"
        )
    if uniform.pipeline_ranks > 1 and not uniform.layers:
        yield "the number of layers of each stage is unknown; launchers cut by layers"


def _setup(setup: Setup | None) -> Iterator[str]:
    if setup is not None and setup.phase == "inference":
        yield "the plan is for inference; these options are for training"
    if setup is not None and setup.gradients == "sum":
        yield "gradients are summed over the batch. Adapt the loss or the learning rate"
