"""`meshwright export`: a plan in the words of PyTorch, JAX or MindSpore, or as launch options."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from meshwright.cli.consoles import notices
from meshwright.cli.stored import SERVER, plan_of
from meshwright.convert import Export, Target, export_plan, network_of
from meshwright.exports import EveryTarget
from meshwright.files import write_whole
from meshwright.launch import LAUNCHERS, Launch, Launcher, launch_of
from meshwright.planfile import PlanFile
from meshwright.schema import PlanError


def export(
    plan: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    to: Annotated[EveryTarget, typer.Option(help="What to write the plan for.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has it.", envvar=SERVER)
    ] = None,
) -> None:
    """Write a plan's layouts as DTensor placements, PartitionSpecs or MindSpore strategies, in
    JSON; of a captured MindSpore network what its primitives are given, or MindSpore's own file of
    strategies; or its degrees as Megatron-LM's arguments, a MindFormers YAML or a torchtitan TOML.

    What the target cannot express is said on standard error with the reason, and in the JSON.
    """
    found = plan_of(server, plan)
    if to in LAUNCHERS:
        _launch(found, to, output)
        return
    if to in ("mindspore-network", "mindspore-strategies"):
        _mindspore(found, to, output)
        return
    exported = export_plan(found.plan, cast(Target, to), graph=found.graph)
    text = json.dumps(exported.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
    _write(text + "\n", output)
    _tell(exported)


def _launch(found: PlanFile, launcher: Launcher, output: Path | None) -> None:
    if found.graph is None:
        raise PlanError(
            f"launch options for {launcher} need the graph of the plan; `meshwright plan -o` and "
            "`estimate -o` write files with both"
        )
    launch = launch_of(found.plan, launcher, graph=found.graph, setup=found.setup)
    _write(launch.text, output)
    _tell_lost(launch)


def _mindspore(found: PlanFile, to: str, output: Path | None) -> None:
    if found.graph is None or found.setup is None:
        raise PlanError(
            f"{to} needs the graph and the setup of the plan; `meshwright plan -o` writes files "
            "with both"
        )
    network = network_of(found.plan, found.graph, found.setup)
    written: dict[str, Any] = (
        network.model_dump(mode="json", exclude_defaults=True)
        if to == "mindspore-network"
        else network.strategy_file()
    )
    _write(json.dumps(written, ensure_ascii=False) + "\n", output)
    console = notices()
    for refusal in network.refused:
        console.print(f"not in mindspore: {refusal.reason}", markup=False, soft_wrap=True)
    for own in network.otherwise:
        planned, done = (", ".join(kinds) or "nothing" for kinds in (own.planned, own.done))
        console.print(
            f"otherwise in mindspore: tensor {own.tensor!r}: {done} for {planned}: {own.reason}",
            markup=False,
            soft_wrap=True,
        )
    console.print(
        f"{len(network.primitives)} primitives for mindspore; {len(network.refused)} ops cannot be "
        f"expressed, {len(network.otherwise)} tensors are moved otherwise",
        markup=False,
        soft_wrap=True,
    )


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        write_whole(output, text)


def _tell_lost(launch: Launch) -> None:
    console = notices()
    for lost in launch.lost:
        console.print(f"lost in {launch.launcher}: {lost}", markup=False, soft_wrap=True)
    console.print(
        f"{launch.uniform.degrees}, {launch.uniform.pipeline_ranks} pipeline rank(s) for "
        f"{launch.launcher}; lost: {len(launch.lost) or 'nothing'}",
        markup=False,
        soft_wrap=True,
    )


def _tell(exported: Export) -> None:
    console = notices()
    for refusal in exported.refused:
        console.print(f"not in {exported.target}: {refusal.reason}", markup=False, soft_wrap=True)
    layouts = sum(len(by_role) for stage in exported.stages for by_role in stage.layouts.values())
    strategies = sum(len(stage.strategies) for stage in exported.stages)
    ops = f" and {strategies} strategies" if exported.target == "mindspore" else ""
    console.print(
        f"{layouts} layouts{ops} for {exported.target}; "
        f"{len(exported.refused)} cannot be expressed",
        markup=False,
        soft_wrap=True,
    )
