"""Plans as launch options, with what got lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

from meshwright.launch import megatron, mindformers, torchtitan
from meshwright.launch.uniform import uniform_of
from meshwright.schema import Graph, Model, Plan, Setup
from meshwright.schema.uniform import Uniform

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
    """A plan for one launcher. text: what its file or command line has. lost: what that does not
    say of the plan, one line each."""

    plan: str
    launcher: Launcher
    uniform: Uniform
    text: str
    lost: tuple[str, ...] = ()


def launch_of(
    plan: Plan, launcher: Launcher, *, graph: Graph, setup: Setup | None = None
) -> Launch:
    """The uniform part of a plan as a launcher has it; PlanError where the graph is another one."""
    uniform = uniform_of(plan, graph, setup)
    differing = [
        f"{own.name}{f' ({own.count} of them)' if own.count > 1 else ''}: {own.what}"
        for own in uniform.differing
    ]
    return Launch(
        plan=plan.id,
        launcher=launcher,
        uniform=uniform,
        text=_TEXTS[launcher](uniform),
        lost=(*_LOST[launcher](uniform), *_summed(setup), *differing),
    )


def _summed(setup: Setup | None) -> Iterator[str]:
    if setup is not None and setup.gradients == "sum":
        yield "gradients are summed over the batch: the loss or the learning rate has to say so"
