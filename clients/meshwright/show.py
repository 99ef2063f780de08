"""A plan that a person can read: what it costs and why it fits, then what it does."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from rich.box import SIMPLE
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.folding import fold, pattern
from meshwright.schema import (
    Graph,
    OpPlan,
    ParameterPlan,
    Plan,
    Redistribution,
    Stage,
    Step,
    Topology,
)
from meshwright.units import show_bytes, show_ns, show_share

WIDTH = 132  # columns of a plan that goes to a file or a page; chosen


def plan_text(plan: Plan, *, graph: Graph | None = None, topology: Topology | None = None) -> str:
    """The plan as plain text."""
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, highlight=False).print(
        render_plan(plan, graph=graph, topology=topology)
    )
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def render_plan(
    plan: Plan,
    *,
    graph: Graph | None = None,
    topology: Topology | None = None,
    ops: str = "*",
) -> RenderableType:
    """The plan for a rich console. ops: a glob; only these ops are listed."""
    parts: list[RenderableType] = [render_summary(plan, graph=graph, topology=topology)]
    for position, stage in enumerate(plan.stages):
        if len(plan.stages) > 1:
            parts.append(Text(f"\nStage {position}", style="bold"))
        parts += [_strategies(stage, graph, ops), _redistributions(stage, ops), _parameters(stage)]
    return Group(*parts)


def render_summary(
    plan: Plan, *, graph: Graph | None = None, topology: Topology | None = None
) -> RenderableType:
    """What the plan costs and why it fits."""
    return Group(_head(plan, graph, topology), _numbers(plan), *_notes(plan))


def _head(plan: Plan, graph: Graph | None, topology: Topology | None) -> RenderableType:
    of = (graph and graph.name) or plan.name or plan.graph[:18]
    on = (topology and topology.name) or plan.topology[:17]
    return Text.assemble(("Plan ", "bold"), f"{of} on {on}", (f"  {plan.id}", "dim"))


def _numbers(plan: Plan) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for row in (*_meshes(plan), _memory(plan), _step(plan), _proof(plan)):
        grid.add_row(*row)
    return grid


def _meshes(plan: Plan) -> Iterator[tuple[str, str]]:
    for position, stage in enumerate(plan.stages):
        axes = " × ".join(
            f"{axis.name}={axis.size}" + (f" ({axis.level})" if axis.level != axis.name else "")
            for axis in stage.mesh.axes
        )
        name = "mesh" if len(plan.stages) == 1 else f"mesh {position}"
        yield name, f"{axes or 'one device'}: {stage.mesh.device_count} devices"


def _memory(plan: Plan) -> tuple[str, str]:
    use = plan.cost.memory_bytes
    parts = ("parameters", "gradients", "optimizer", "activations", "reserved")
    split = ", ".join(f"{part} {show_bytes(getattr(use, part))}" for part in parts)
    share = show_share(use.total / use.capacity) if use.capacity else "?"
    return "memory", f"{show_bytes(use.total)} of {show_bytes(use.capacity)} ({share}): {split}"


def _step(plan: Plan) -> tuple[str, str]:
    cost = plan.cost
    exposed = sum(cost.exposed_ns.values())
    split = ", ".join(
        f"{traffic} {show_ns(ns)} of {show_ns(cost.communication_ns.get(traffic, ns))}"
        for traffic, ns in cost.exposed_ns.items()
    )
    repeated = (
        f"; {show_share(plan.repeated_work)} of the arithmetic is repeated on several devices"
        if plan.repeated_work
        else ""
    )
    return "step", (
        f"{show_ns(cost.step_ns)} = compute {show_ns(cost.compute_ns)} + exposed communication "
        f"{show_ns(exposed)}" + (f" ({split})" if split else "") + repeated
    )


def _proof(plan: Plan) -> tuple[str, str]:
    search = plan.search
    return "proof", (
        f"{search.outcome}: cost {show_ns(search.cost_ns)}, lower bound "
        f"{show_ns(search.lower_bound_ns)}, gap {show_share(search.gap)}, by {search.solver} over "
        f"{len(search.meshes)} mesh{'es' if len(search.meshes) != 1 else ''}"
    )


def _notes(plan: Plan) -> list[RenderableType]:
    notes = [f"note: {note}" for note in plan.notes]
    if plan.unknown_kinds:
        notes.append(f"note: unknown kinds, kept replicated: {', '.join(plan.unknown_kinds)}")
    notes += [
        "pin: " + ", ".join(f"{key} {_plain(value)}" for key, value in pin.items())
        for pin in plan.pins
    ]
    return [Text(note, style="yellow") for note in notes]


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return _split({str(key): tuple(axes) for key, axes in value.items()})
    return str(value)


def _strategies(stage: Stage, graph: Graph | None, ops: str) -> RenderableType:
    table = _table("Strategies", "op", "kind", "rule", "strategy", "output", "compute")
    outputs = {op.name: op.outputs[0] for op in graph.ops} if graph else {}
    layouts = {tensor.tensor: str(tensor.rest.value) for tensor in stage.tensors}

    def layout(op: OpPlan) -> str:
        return layouts.get(outputs.get(op.op, op.op), "")

    wanted = [op for op in stage.ops if fnmatchcase(op.op, ops)]
    meaning = ((op.op, (op.kind, op.rule, _strategy(op), layout(op)), op) for op in wanted)
    for repeat in fold(meaning):
        op = repeat.first
        compute_ns = sum(item.compute_ns for item in repeat.items)
        table.add_row(
            _name(repeat.label, repeat.count), op.kind, op.rule or "none", _strategy(op),
            layout(op), show_ns(compute_ns),
        )  # fmt: skip
    return table


def _strategy(op: OpPlan) -> str:
    split = _split(op.strategy)
    partial = " ".join(f"+{axis}" for axis in op.partial)
    return f"{split} {partial}".strip() or "replicated"


def _split(strategy: Mapping[str, Iterable[str]]) -> str:
    return " ".join(f"{factor}@{'@'.join(axes)}" for factor, axes in strategy.items() if axes)


def _redistributions(stage: Stage, ops: str) -> RenderableType:
    moved = [
        r for r in stage.redistributions if r.op is None or fnmatchcase(r.op, ops)
        if r.forward or r.backward or r.per_step
    ]  # fmt: skip
    if not moved:
        return Text("\nRedistributions: none", style="bold")
    table = _table("Redistributions", "tensor", "for", "traffic", "steps", "time", "exposed")
    for repeat in fold((r.tensor, _movement(r), r) for r in moved):
        first = repeat.first
        table.add_row(
            _name(repeat.label, repeat.count), pattern(first.op) if first.op else "all readers",
            first.traffic, "\n".join(_steps(first)), show_ns(sum(r.ns for r in repeat.items)),
            show_ns(sum(r.exposed_ns for r in repeat.items)),
        )  # fmt: skip
    return table


def _movement(move: Redistribution) -> tuple[object, ...]:
    reader = pattern(move.op) if move.op else None
    steps = (*move.forward, *move.backward, *move.per_step)
    return reader, move.traffic, tuple(_steps(move)), tuple(str(step.to) for step in steps)


def _steps(move: Redistribution) -> list[str]:
    again = ", again in backward" if move.again else ""
    return [
        f"{when}: {', '.join(map(_collective, steps))}{more}"
        for when, steps, more in (
            ("forward", move.forward, again),
            ("backward", move.backward, ""),
            ("per step", move.per_step, ""),
        )
        if steps
    ]


def _collective(step: Step) -> str:
    payload = f" {show_bytes(step.payload_bytes)}" if step.payload_bytes else ""
    return f"{step.kind}({' '.join(step.axes)}){payload} {show_ns(step.ns)}"


def _parameters(stage: Stage) -> RenderableType:
    if not stage.parameters:
        return Text("\nParameters: none", style="bold")
    table = _table("Parameters at rest", "parameter", "value", "gradient", "optimizer", "bytes")
    for repeat in fold((p.tensor, _at_rest(p), p) for p in stage.parameters):
        total = sum(p.value_bytes + p.gradient_bytes + p.optimizer_bytes for p in repeat.items)
        table.add_row(_name(repeat.label, repeat.count), *_at_rest(repeat.first), show_bytes(total))
    return table


def _at_rest(parameter: ParameterPlan) -> tuple[str, str, str]:
    value = str(parameter.value)

    def other(layout: object) -> str:
        return "none" if layout is None else "same" if str(layout) == value else str(layout)

    return value, other(parameter.gradient), other(parameter.optimizer)


def _name(label: str, count: int) -> Text:
    return Text.assemble(label, (f" ×{count}" if count > 1 else "", "bold"))


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False
    )
    for column in columns:
        right = column in ("compute", "time", "exposed", "bytes")
        table.add_column(
            column,
            justify="right" if right else "left",
            no_wrap=right or column == "kind",
            overflow="fold",
        )
    return table
