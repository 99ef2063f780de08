"""What a plan costs and why it fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.inspecting.overview import rates_of, symbols_of
from meshwright.schema import Certificate, Graph, Plan, Setup, Topology
from meshwright.show.axes import AxisNames
from meshwright.show.certificate import certificate_text
from meshwright.show.history import history_lines
from meshwright.show.move import move_table
from meshwright.show.pipeline import considered_rows, pipeline_rows
from meshwright.show.recompute import recompute_rows
from meshwright.show.wishes import wish_rows
from meshwright.units import show_bytes, show_ns, show_share

FEW = 3  # names of a list that goes on; chosen


def render_summary(
    plan: Plan,
    *,
    graph: Graph | None = None,
    topology: Topology | None = None,
    setup: Setup | None = None,
    certificate: Certificate | None = None,
    seconds: Sequence[float] = (),
) -> RenderableType:
    """What the plan costs, why it fits, how it was found and whether its execution was right."""
    return Group(
        _head(plan, graph, topology),
        _numbers(plan, (graph, topology, setup), certificate, seconds),
        *move_table(plan),
        *_notes(plan),
    )


def _head(plan: Plan, graph: Graph | None, topology: Topology | None) -> RenderableType:
    of = (graph and graph.name) or plan.name or plan.graph[:18]
    on = (topology and topology.name) or plan.topology[:17]
    return Text.assemble(("Plan ", "bold"), f"{of} on {on}", (f"  {plan.id}", "dim"))


def _numbers(
    plan: Plan,
    about: tuple[Graph | None, Topology | None, Setup | None],
    certificate: Certificate | None,
    seconds: Sequence[float],
) -> RenderableType:
    graph, topology, setup = about
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    rows: list[tuple[str, RenderableType]] = [
        _run(plan, graph, setup or Setup()),
        *wish_rows(plan.wishes),
        *(pipeline_rows(plan, topology) if plan.schedule is not None else _meshes(plan)),
        *recompute_rows(plan),
        _memory(plan),
        _step(plan),
        *_padding(plan),
        *_order(plan),
        *_buckets(plan),
        _proof(plan),
        *considered_rows(plan),
        *_history(plan, seconds),
        *_execution(certificate),
    ]
    for name, said in rows:
        grid.add_row(name, said)
    return grid


def _run(plan: Plan, graph: Graph | None, setup: Setup) -> tuple[str, str]:
    symbols = symbols_of(graph, setup)
    said = [", ".join(f"{name} {value}" for name, value in symbols.items())]
    said.append(f"{plan.microbatches} microbatch{'es' if plan.microbatches > 1 else ''}")
    said.append(_phase(setup))
    samples_per_s, tokens_per_s = rates_of(plan, graph, setup)
    if samples_per_s is not None:
        said.append(f"{samples_per_s:,.0f} samples/s")
    if tokens_per_s is not None:
        said.append(f"{tokens_per_s:,.0f} tokens/s")
    return "run", "; ".join(part for part in said if part)


def _phase(setup: Setup) -> str:
    if setup.phase == "inference":
        return "inference"
    summed = ", gradients summed over the batch" if setup.gradients == "sum" else ""
    return f"training, {setup.optimizer.name}{summed}"


def _meshes(plan: Plan) -> Iterator[tuple[str, str]]:
    for stage in plan.stages:
        axes = " × ".join(
            f"{axis.name}={axis.size}" + (f" ({axis.level})" if axis.level != axis.name else "")
            for axis in stage.mesh.axes
        )
        legend = AxisNames(stage.mesh).legend
        yield "mesh", f"{axes or 'one device'}: {stage.mesh.device_count} devices{legend}"


_AT_TIMES = ("cache", "recomputed", "working", "gathered", "buffers")


def _memory(plan: Plan) -> tuple[str, str]:
    use = plan.cost.memory_bytes
    parts = ["parameters", "gradients", "optimizer", "activations"]
    parts += [part for part in _AT_TIMES if getattr(use, part)]
    parts.append("reserved")
    split = ", ".join(f"{part} {show_bytes(getattr(use, part))}" for part in parts)
    share = show_share(use.total / use.capacity) if use.capacity else "?"
    peak_bytes = plan.peak_bytes
    while_moved = (
        f"; the largest redistribution takes {show_bytes(peak_bytes)} while it runs"
        if peak_bytes
        else ""
    )
    when = f"; most at the {use.moment}" if use.moment else ""
    on_host = (
        f"; on the host {show_bytes(use.host)} of {show_bytes(use.host_capacity)} a device"
        if use.host
        else ""
    )
    return "memory", (
        f"{show_bytes(use.total)} of {show_bytes(use.capacity)} ({share}): "
        f"{split}{when}{on_host}{while_moved}"
    )


def _step(plan: Plan) -> tuple[str, str]:
    cost = plan.cost
    exposed = sum(cost.exposed_ns.values())
    in_ops = sum(op.compute_ns for stage in plan.stages for op in stage.ops)
    waits = f" + bubble {show_ns(cost.bubble_ns)}" if plan.schedule is not None else ""
    split = ", ".join(
        f"{traffic} {show_ns(ns)} of {show_ns(cost.communication_ns.get(traffic, ns))}"
        for traffic, ns in cost.exposed_ns.items()
        if ns or cost.communication_ns.get(traffic)
    )
    repeated = (
        f"; {show_share(plan.repeated_work)} of the arithmetic is repeated on several devices"
        if plan.repeated_work
        else ""
    )
    # the ops' own times add up to compute but for the optimizer's
    update_ns = cost.compute_ns - in_ops
    update = (
        f"; the optimizer takes {show_ns(update_ns)} of compute"
        if plan.schedule is None and 0 < in_ops < cost.compute_ns * 0.9999
        else ""
    )
    return "step", (
        f"{show_ns(cost.step_ns)} = compute {show_ns(cost.compute_ns)} + exposed communication "
        f"{show_ns(exposed)}" + (f" ({split})" if split else "") + waits + update + repeated
    )


def _padding(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every size that is filled up, to what, and the dims that have it."""
    dims: dict[tuple[int, int], list[str]] = {}
    for own in plan.padding:
        dims.setdefault((own.size, own.padded), []).append(f"{own.tensor} dim {own.dim}")
    for place, ((size, padded), names) in enumerate(dims.items()):
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        said = f"{size} -> {padded} in {', '.join(names[:FEW])}{more}"
        yield "padding" if not place else "", said


def _order(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is loaded in another order than its own, and what goes by true positions."""
    for own in plan.order:
        dims = [f"{dim.tensor} dim {dim.dim}" for dim in own.loaded]
        ops = own.by_position
        parts = own.chunks // 2
        said = f"{own.size} positions in {own.chunks} chunks, i and {own.chunks - 1}-i for part i"
        said += f" of {parts}: {_few(dims)}; by true positions: {_few(ops)}"
        yield "order", said


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{', '.join(names[:FEW])}{more}"


def _buckets(plan: Plan) -> Iterator[tuple[str, str]]:
    """How many buckets of each kind, and how many tensors are in them."""
    found: dict[str, list[int]] = {}
    for stage in plan.stages:
        for own in stage.buckets:
            found.setdefault(own.collective, []).append(len(own.tensors))
    if found:
        yield (
            "fusion",
            ", ".join(
                f"{sum(counts)} {kind} in {len(counts)} bucket{'s' if len(counts) > 1 else ''}"
                for kind, counts in found.items()
            ),
        )


def _proof(plan: Plan) -> tuple[str, str]:
    search = plan.search
    return "proof", (
        f"{search.outcome}: {_what(plan)} {show_ns(search.cost_ns)}, lower bound "
        f"{show_ns(search.lower_bound_ns)}, gap {show_share(search.gap)}, by {search.found_by} "
        f"over {len(search.meshes)} mesh{'es' if len(search.meshes) != 1 else ''}"
        + (f"; {show_ns(search.faster_ns)} more for a shorter step" if search.faster_ns else "")
    )


def _what(plan: Plan) -> str:
    """Of what bound and gap are: a step in a pipeline, else what adds up."""
    return "objective" if plan.schedule is None else "step"


def _history(plan: Plan, seconds: Sequence[float]) -> Iterator[tuple[str, str]]:
    for place, line in enumerate(history_lines(plan, seconds)):
        yield "search" if not place else "", line


def _execution(certificate: Certificate | None) -> Iterator[tuple[str, Text]]:
    if certificate is not None:
        good = certificate.outcome == "verified"
        yield "execution", Text(certificate_text(certificate), style="" if good else "bold red")


def _notes(plan: Plan) -> list[RenderableType]:
    notes = [f"note: {note}" for note in plan.notes]
    if plan.unknown_kinds:
        notes.append(f"note: unknown kinds, kept replicated: {', '.join(plan.unknown_kinds)}")
    return [Text(note, style="yellow") for note in notes]
