"""`meshwright export`: a plan in the words of PyTorch, JAX or MindSpore."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.consoles import notices
from meshwright.convert import Export, Target, export_plan
from meshwright.files import write_whole
from meshwright.planfile import read_plan


def export(
    plan: Annotated[Path, typer.Argument(help="Plan file, as `meshwright plan -o` writes it.")],
    to: Annotated[Target, typer.Option(help="What to write the layouts for.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; JSON.")
    ] = None,
) -> None:
    """Write a plan's layouts as DTensor placements, PartitionSpecs or MindSpore strategies.

    What the target cannot express is listed in the JSON, and on standard error with the reason.
    """
    found = read_plan(plan)
    exported = export_plan(found.plan, to, graph=found.graph)
    text = json.dumps(exported.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
    if output is None:
        sys.stdout.write(text + "\n")
    else:
        write_whole(output, text + "\n")
    _tell(exported)


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
