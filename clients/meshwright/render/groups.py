"""The communication groups of a plan, as lists of ranks."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.render.axes import AxisNames
from meshwright.schema import Axis, Stage


def render_groups(stage: Stage) -> RenderableType:
    """A table of communication groups: axes, kinds of steps, and the ranks of each group.

    A plan stores axes only; `Mesh.groups` computes the ranks.
    """
    kinds: dict[tuple[Axis, ...], set[str]] = {}
    for move in stage.redistributions:
        for step in move.steps:
            if step.kind not in ("slice", "mask"):  # these need no communication
                kinds.setdefault(step.axes, set()).add(step.kind)
    for op in stage.ops:
        for own_step in op.own_steps:
            if not own_step.axes:
                continue  # sends to another stage
            kinds.setdefault(own_step.axes, set()).add(own_step.kind)
    if not kinds:
        return Text("\nGroups: none", style="bold")
    table = Table(title="Groups", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for column in ("axes", "steps", "groups", "ranks"):
        table.add_column(column, overflow="fold")
    names = AxisNames(stage.mesh)
    for axes, step_kinds in sorted(kinds.items()):
        groups = stage.mesh.groups(axes)
        ranks = " ".join(f"[{','.join(map(str, ranks))}]" for ranks in groups)
        shape = f"{len(groups)} of {len(groups[0])}"
        table.add_row(" ".join(names.short(axes)), ", ".join(sorted(step_kinds)), shape, ranks)
    return table
