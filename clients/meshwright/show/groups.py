"""The communication groups of a plan, as lists of ranks."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.schema import Axis, Stage
from meshwright.show.axes import AxisNames


def render_groups(stage: Stage) -> RenderableType:
    """For every set of axes over which steps run: the kinds of steps, and the ranks of each group.

    A plan stores axes alone; `Mesh.groups` makes the lists.
    """
    kinds: dict[tuple[Axis, ...], set[str]] = {}
    for moved in stage.redistributions:
        for step in (*moved.forward, *moved.backward, *moved.per_step):
            if step.kind not in ("slice", "mask"):  # these talk to nobody
                kinds.setdefault(step.axes, set()).add(step.kind)
    for op in stage.ops:
        for own in op.own_steps:
            if not own.axes:
                continue  # to another stage
            kinds.setdefault(own.axes, set()).add(own.kind)
    if not kinds:
        return Text("\nGroups: none", style="bold")
    table = Table(title="Groups", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for column in ("axes", "steps", "groups", "ranks"):
        table.add_column(column, overflow="fold")
    names = AxisNames(stage.mesh)
    for axes, used in sorted(kinds.items()):
        groups = stage.mesh.groups(axes)
        ranks = " ".join(f"[{','.join(map(str, ranks))}]" for ranks in groups)
        shape = f"{len(groups)} of {len(groups[0])}"
        table.add_row(" ".join(names.short(axes)), ", ".join(sorted(used)), shape, ranks)
    return table
