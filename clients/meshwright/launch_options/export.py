"""Export of plans as launch options, with the parts that the options cannot express."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

from meshwright.launch_options import megatron, mindformers, torchtitan
from meshwright.launch_options.uniform import uniform_of
from meshwright.schema import Graph, Model, Plan, Setup
from meshwright.schema.uniform_degrees import Uniform

Launcher = Literal["megatron", "mindformers", "torchtitan"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)

_TEXTS: dict[Launcher, Callable[[Uniform], str]] = {
    "megatron": megatron.text,
    "mindformers": mindformers.text,
    "torchtitan": torchtitan.text,
}
_LOST: dict[Launcher, Callable[[Uniform], Iterator[str]]] = {
    "megatron": megatron.lost,
    "mindformers": mindformers.lost,
    "torchtitan": torchtitan.lost,
}


class Launch(Model):
    """The launch options of a plan for one launcher.

    text: the launcher's file or command line. lost: each difference between the plan and the run of
    the launcher with this text, or the reason why the launcher refuses the text.
    """

    plan: str
    launcher: Launcher
    uniform: Uniform
    text: str
    lost: tuple[str, ...] = ()


def launch_of(
    plan: Plan, launcher: Launcher, *, graph: Graph, setup: Setup | None = None
) -> Launch:
    """The launch options of a plan's uniform part; PlanError where the graph is not the plan's."""
    uniform = uniform_of(plan, graph, setup)
    differences = [
        f"{difference.name}{f' ({difference.count} of them)' if difference.count > 1 else ''}: "
        f"{difference.what}"
        for difference in uniform.differing
    ]
    return Launch(
        plan=plan.id,
        launcher=launcher,
        uniform=uniform,
        text=_TEXTS[launcher](uniform),
        lost=(*_LOST[launcher](uniform), *_sizes(uniform), *_setup(setup), *differences),
    )


def _sizes(uniform: Uniform) -> Iterator[str]:
    """Sizes that no launcher accepts."""
    dp = uniform.degrees.dp or 1
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
