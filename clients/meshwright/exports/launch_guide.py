"""The launch guide of a plan: every way to train with it or to read it elsewhere, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from pydantic import Field

from meshwright.exports.exported import EveryTarget, Exported
from meshwright.exports.formats import FORMATS, Group, file_name
from meshwright.exports.launch_steps import (
    Command,
    ExportedFile,
    Processes,
    jax_program,
    steps_of_export,
    torch_program,
)
from meshwright.exports.losses import Loss, folded, losses_of
from meshwright.schema import Model, Topology
from meshwright.schema.overview import Overview
from meshwright.schema.target import Target

NODE = "node"  # the level of presets and of measured clusters whose units are servers


class LaunchStep(Model):
    """One step, with the code that carries it out. `{server}` is the URL of the service."""

    text: str = Field(description="The step, as a sentence.")
    code: str = Field(description="The commands or the program.")
    language: Literal["shell", "python"] = Field(description="The language of the code.")


class LaunchWay(Model):
    """One way to use a plan: with the file of an export, or with a runtime that reads the plan."""

    name: str = Field(description="The target of the export, or the name of the runtime.")
    title: str = Field(description="The title of the way.")
    group: Group = Field(description="The kind of way.")
    export: EveryTarget | None = Field(
        default=None, description="The target of the export. None: the runtime reads the plan."
    )
    file: str | None = Field(default=None, description="A name for the file of the export.")
    refused: tuple[str, ...] = Field(
        default=(), description="The reasons why the runtime does not carry out this plan."
    )
    steps: tuple[LaunchStep, ...] = Field(default=(), description="The steps, in order.")


class LaunchGuide(Model):
    """The ways to use a plan."""

    plan: str = Field(description="The id of the plan.")
    target: Target | None = Field(
        default=None, description="The target of the plan's search. None: no target."
    )
    ways: tuple[LaunchWay, ...] = Field(description="The ways, by group.")


class LaunchFile(Model):
    """The file of an export, with what it does not say of the plan."""

    target: EveryTarget = Field(description="The target of the export.")
    file: str = Field(description="A name for the file.")
    losses: tuple[Loss, ...] = Field(
        default=(), description="The parts of the plan that the file does not state."
    )
    remarks: tuple[str, ...] = Field(
        default=(), description="Further duties of the training script."
    )
    text: str | None = Field(
        default=None, description="The content. None if parts are lost, and it was not asked for."
    )


def launch_file(exported: Exported, graph_name: str, *, text: bool) -> LaunchFile:
    """The file of an export. text: with its content although parts of the plan are lost."""
    return LaunchFile(
        target=exported.target,
        file=file_name(graph_name, exported.target),
        losses=losses_of(exported.missing),
        remarks=tuple(dict.fromkeys(map(folded, exported.remarks))),
        text=exported.text if text or not exported.missing else None,
    )


def launch_guide(overview: Overview, topology: Topology) -> LaunchGuide:
    """The launch guide of a plan, by its overview; the topology is the plan's."""
    processes = _processes(overview, topology)
    ways = [
        *_runtime_ways(overview, processes),
        *(_export_way(target, overview, processes) for target in FORMATS),
    ]
    ways.sort(key=lambda way: get_args(Group).index(way.group))
    return LaunchGuide(plan=overview.plan, target=overview.wishes.target, ways=tuple(ways))


def _processes(overview: Overview, topology: Topology) -> Processes:
    """The processes of a training job, one for each device of the plan, and their nodes."""
    total = max(stage.first_rank + stage.devices for stage in overview.stages)
    nodes = sum(
        next((level.size for level in group.levels if level.name == NODE), 1)
        for group in topology.groups
    )
    if topology.device_count != total or total % nodes:
        nodes = 1
    return Processes(nodes, total // nodes)


def _export_way(target: EveryTarget, overview: Overview, processes: Processes) -> LaunchWay:
    file = file_name(overview.graph_name, target)
    return LaunchWay(
        name=target,
        title=FORMATS[target].title,
        group=FORMATS[target].group,
        export=target,
        file=file,
        steps=_steps(steps_of_export(target, ExportedFile(overview.plan, file, processes))),
    )


def _runtime_ways(overview: Overview, processes: Processes) -> Iterator[LaunchWay]:
    phase = ["the plan is for inference; the runtime trains"]
    if overview.setup.phase == "training":
        phase = []
    yield LaunchWay(
        name="torch",
        title="PyTorch, any plan",
        group="runtimes",
        refused=tuple(phase),
        steps=_steps(torch_program(overview.plan, processes)),
    )
    yield LaunchWay(
        name="jax-program",
        title="JAX",
        group="runtimes",
        refused=(*phase, *_refused_by_jax(overview)),
        steps=_steps(jax_program(overview.plan)),
    )


def _refused_by_jax(overview: Overview) -> Iterator[str]:
    if len(overview.stages) > 1:
        yield f"the plan has {len(overview.stages)} pipeline stages; the JAX runtime runs one"
    if overview.uniform.is_zigzag:
        yield "the plan loads sequences in zigzag order; the JAX runtime loads contiguous parts"


def _steps(commands: Iterator[Command]) -> tuple[LaunchStep, ...]:
    return tuple(
        LaunchStep(text=own.text, code=own.code, language="python" if own.is_python else "shell")
        for own in commands
    )
