"""What a plan does: strategies, redistributions and parameters, folded by repeated block."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from meshwright.folding import fold, pattern
from meshwright.schema import (
    Graph,
    Layout,
    OpPlan,
    ParameterPlan,
    Redistribution,
    Stage,
    Step,
)
from meshwright.schema.plan import Resting
from meshwright.show.axes import AxisNames
from meshwright.units import show_bytes, show_ns

WIDE = 130  # columns of a terminal; chosen: the tables of the examples fit into 140


def render_stage(
    stage: Stage, *, graph: Graph | None = None, ops: str = "*"
) -> Iterator[RenderableType]:
    """The tables of one stage. ops: a glob; only these ops are listed."""
    yield _strategies(stage, graph, ops)
    yield _redistributions(stage, ops)
    yield _parameters(stage)


def _strategies(stage: Stage, graph: Graph | None, ops: str) -> RenderableType:
    table = _table("Strategies", "op", "kind", "rule", "strategy", "output", "compute")
    names = AxisNames(stage.mesh)
    outputs = {op.name: op.outputs[0] for op in graph.ops} if graph else {}
    layouts = {tensor.tensor: tensor.rest.value for tensor in stage.tensors}

    def meaning(op: OpPlan) -> tuple[str, str, str, str]:
        layout = layouts.get(outputs.get(op.op, op.op))
        strategy = names.strategy(op.strategy, op.partial, op.followers)
        return op.kind, op.rule or "none", strategy, names.layout(layout) if layout else ""

    wanted = [op for op in stage.ops if fnmatchcase(op.op, ops)]
    for repeat in fold((op.op, meaning(op), op) for op in wanted):
        compute_ns = sum(op.compute_ns for op in repeat.items)
        name = _name(repeat.label, repeat.count)
        table.add_row(name, *meaning(repeat.first), show_ns(compute_ns))
    return table


def _redistributions(stage: Stage, ops: str) -> RenderableType:
    names = AxisNames(stage.mesh)
    moved = [
        move
        for move in stage.redistributions
        if (move.forward or move.backward or move.per_step)
        and (move.op is None or fnmatchcase(move.op, ops))
    ]
    if not moved:
        return Text("\nRedistributions: none", style="bold")

    def meaning(move: Redistribution) -> tuple[str, str]:
        return move.traffic, "\n".join(_steps(move, names))

    table = _table("Redistributions", "tensor", "traffic", "steps", "time", "counted")
    for repeat in fold(
        (move.tensor, (_reader(move), *meaning(move), _layouts(move)), move) for move in moved
    ):
        table.add_row(
            _name(repeat.label, repeat.count) + _reader(repeat.first),
            *meaning(repeat.first),
            show_ns(sum(move.ns for move in repeat.items)),
            show_ns(sum(move.counted_ns for move in repeat.items)),
        )
    return table


def _reader(move: Redistribution) -> str:
    """On a line of its own who reads; nothing for all readers and a module's own parameter."""
    if move.op is None or move.tensor.startswith(f"{move.op}."):
        return ""
    return f"\n  to {pattern(move.op)}"


def _layouts(move: Redistribution) -> tuple[str, ...]:
    return tuple(str(step.to) for step in (*move.forward, *move.backward, *move.per_step))


def _steps(move: Redistribution, names: AxisNames) -> Iterator[str]:
    forward = "forward, again in backward" if move.again else "forward"
    for when, steps in (
        (forward, move.forward),
        ("backward", move.backward),
        ("per step", move.per_step),
    ):
        if steps:
            yield f"{when}: " + ", ".join(_collective(step, names) for step in steps)


def _collective(step: Step, names: AxisNames) -> str:
    payload = f" {show_bytes(step.payload_bytes)}" if step.payload_bytes else ""
    return f"{step.kind}({' '.join(names.short(step.axes))}){payload} {show_ns(step.ns)}"


def _parameters(stage: Stage) -> RenderableType:
    if not stage.parameters:
        return Text("\nParameters: none", style="bold")
    names = AxisNames(stage.mesh)

    def meaning(parameter: ParameterPlan) -> tuple[str, str, str]:
        value, gradient = parameter.value, parameter.gradient
        return (
            names.layout(value) + _where("value", parameter),
            ("rows looked up" if parameter.sparse_gradient else _other(gradient, value, names))
            + _where("gradient", parameter)
            + _owned("gradient", parameter, names),
            _other(parameter.optimizer, value, names)
            + _where("optimizer", parameter)
            + _owned("optimizer", parameter, names),
        )

    table = _table("Parameters at rest", "parameter", "value", "gradient", "optimizer", "bytes")
    for repeat in fold((p.tensor, meaning(p), p) for p in stage.parameters):
        total = sum(p.value_bytes + p.gradient_bytes + p.optimizer_bytes for p in repeat.items)
        on_host = sum(p.host_bytes for p in repeat.items)
        name = _name(repeat.label, repeat.count)
        held = show_bytes(total) + (f"\nhost {show_bytes(on_host)}" if on_host else "")
        table.add_row(name, *meaning(repeat.first), held)
    return table


def _where(part: Resting, parameter: ParameterPlan) -> str:
    return ", on host" if part in parameter.on_host else ""


def _owned(part: Resting, parameter: ParameterPlan, names: AxisNames) -> str:
    """Whose it is differs from parameter to parameter; the axes tell layers alike."""
    along = " ".join(names.short(tuple(parameter.owner)))
    return f", one of {along}" if part in parameter.owned else ""


def _other(layout: Layout | None, value: Layout, names: AxisNames) -> str:
    if layout is None:
        return "none"
    return "same" if layout == value else names.layout(layout)


def _name(label: str, count: int) -> Text:
    return Text.assemble(label, (f" ×{count}" if count > 1 else "", "bold"))


class _Table(Table):
    """Names stay whole where there is room; on a narrow terminal they fold, and nothing is lost."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.columns[0].no_wrap = options.max_width >= WIDE
        yield from super().__rich_console__(console, options)


def _table(title: str, *columns: str) -> Table:
    table = _Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
    )
    for position, column in enumerate(columns):
        number = column in ("compute", "time", "exposed", "bytes")
        whole = number or position == 0 or column in ("kind", "traffic")
        table.add_column(
            column, justify="right" if number else "left", no_wrap=whole, overflow="fold"
        )
    return table
