"""Tables of a plan: strategies, redistributions and parameters, with repeated blocks folded."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from meshwright.common.name_ranges import fold, pattern
from meshwright.common.units import show_bytes, show_ns
from meshwright.render.axes import AxisNames
from meshwright.schema import Graph, Layout, OpPlan, ParameterPlan, Redistribution, Stage, Step
from meshwright.schema.stage import Resting

WIDE = 130  # chosen: terminal columns from which on names do not wrap


def render_stage(
    stage: Stage, *, graph: Graph | None = None, ops: str = "*"
) -> Iterator[RenderableType]:
    """The tables of one stage; `ops` is a glob of the listed ops."""
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

    selected = [op for op in stage.ops if fnmatchcase(op.op, ops)]
    for repeat in fold((op.op, meaning(op), op) for op in selected):
        compute_ns = sum(op.compute_ns for op in repeat.items)
        name = _name(repeat.label, repeat.count)
        table.add_row(name, *meaning(repeat.first), show_ns(compute_ns))
    return table


def _redistributions(stage: Stage, ops: str) -> RenderableType:
    names = AxisNames(stage.mesh)
    moves = [
        move
        for move in stage.redistributions
        if move.steps and (move.op is None or fnmatchcase(move.op, ops))
    ]
    if not moves:
        return Text("\nRedistributions: none", style="bold")

    def meaning(move: Redistribution) -> tuple[str, str]:
        return move.traffic, "\n".join(_steps(move, names))

    table = _table("Redistributions", "tensor", "traffic", "steps", "time", "counted")
    for repeat in fold(
        (move.tensor, (_reader(move), *meaning(move), _layouts(move)), move) for move in moves
    ):
        table.add_row(
            _name(repeat.label, repeat.count) + _reader(repeat.first),
            *meaning(repeat.first),
            show_ns(sum(move.ns for move in repeat.items)),
            show_ns(sum(move.counted_ns for move in repeat.items)),
        )
    return table


def _reader(move: Redistribution) -> str:
    """The reader, on a separate line; empty for all readers and for a module's own parameter."""
    if move.op is None or move.tensor.startswith(f"{move.op}."):
        return ""
    return f"\n  to {pattern(move.op)}"


def _layouts(move: Redistribution) -> tuple[str, ...]:
    return tuple(str(step.to) for step in move.steps)


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
            names.layout(value) + _host_text("value", parameter),
            (
                "rows looked up"
                if parameter.sparse_gradient
                else _layout_text(gradient, value, names)
            )
            + _host_text("gradient", parameter)
            + _owner_text("gradient", parameter, names),
            _layout_text(parameter.optimizer, value, names)
            + _host_text("optimizer", parameter)
            + _owner_text("optimizer", parameter, names),
        )

    table = _table("Parameters at rest", "parameter", "value", "gradient", "optimizer", "bytes")
    for repeat in fold((p.tensor, meaning(p), p) for p in stage.parameters):
        total = sum(p.value_bytes + p.gradient_bytes + p.optimizer_bytes for p in repeat.items)
        on_host = sum(p.host_bytes for p in repeat.items)
        name = _name(repeat.label, repeat.count)
        bytes_text = show_bytes(total) + (f"\nhost {show_bytes(on_host)}" if on_host else "")
        table.add_row(name, *meaning(repeat.first), bytes_text)
    return table


def _host_text(part: Resting, parameter: ParameterPlan) -> str:
    return ", on host" if part in parameter.on_host else ""


def _owner_text(part: Resting, parameter: ParameterPlan, names: AxisNames) -> str:
    """The axes along which one device owns a state; the owner differs by parameter."""
    along = " ".join(names.short(tuple(parameter.owner)))
    return f", one of {along}" if part in parameter.owned else ""


def _layout_text(layout: Layout | None, value: Layout, names: AxisNames) -> str:
    if layout is None:
        return "none"
    return "same" if layout == value else names.layout(layout)


def _name(label: str, count: int) -> Text:
    return Text.assemble(label, (f" ×{count}" if count > 1 else "", "bold"))


class _WideTable(Table):
    """A table whose names wrap on narrow terminals only."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.columns[0].no_wrap = options.max_width >= WIDE
        yield from super().__rich_console__(console, options)


def _table(title: str, *columns: str) -> Table:
    table = _WideTable(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
    )
    for position, column in enumerate(columns):
        number = column in ("compute", "time", "exposed", "bytes")
        no_wrap = number or position == 0 or column in ("kind", "traffic")
        table.add_column(
            column, justify="right" if number else "left", no_wrap=no_wrap, overflow="fold"
        )
    return table
