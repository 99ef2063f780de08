"""Summary of a plan: cost, memory, search and verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.units import show_bytes, show_ns, show_share
from meshwright.render.axes import AxisNames
from meshwright.render.certificate import certificate_text
from meshwright.render.history import history_lines
from meshwright.render.move import move_table
from meshwright.render.parallel_shares import parallel_rows
from meshwright.render.pipeline import considered_rows, pipeline_rows
from meshwright.render.recompute import recompute_rows
from meshwright.render.wishes import wish_rows
from meshwright.reports.likelihood import probability_fits
from meshwright.reports.op_times import MOST_KINDS, kind_times
from meshwright.reports.plan_warnings import plan_warnings
from meshwright.reports.precision import plan_precision
from meshwright.reports.throughput import Throughput, symbols_of, throughput_of
from meshwright.schema import Certificate, Graph, MemoryUse, Plan, Setup, Topology
from meshwright.schema.overview import KindTime, PlanWarning

FEW = 3  # chosen: names shown of a long list


def render_summary(
    plan: Plan,
    *,
    graph: Graph | None = None,
    topology: Topology | None = None,
    setup: Setup | None = None,
    certificate: Certificate | None = None,
    seconds: Sequence[float] = (),
    interval_ns: tuple[float, float] | None = None,
) -> RenderableType:
    """The plan's cost and memory, the search that produced it, and its verification.

    interval_ns: of the step (`meshwright.reports.step_interval`).
    """
    of_step = setup or Setup()
    throughput = throughput_of(plan, graph, topology, of_step)
    kinds = kind_times(plan)
    warnings = plan_warnings(plan, graph, of_step, throughput, kinds)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    rows: list[tuple[str, RenderableType]] = [
        _run(plan, graph, of_step, throughput),
        *_rate(throughput),
        *_warnings(warnings),
        *wish_rows(plan.wishes),
        *(pipeline_rows(plan, topology) if plan.schedule is not None else _meshes(plan)),
        *parallel_rows(plan, graph),
        *recompute_rows(plan),
        _memory(plan),
        _step(plan),
        *_interval(interval_ns, of_step, plan.cost.memory_bytes),
        *_kinds(kinds),
        *_padding(plan),
        *_order(plan),
        *_buckets(plan),
        *_bound(plan),
        _proof(plan, warnings),
        *considered_rows(plan),
        *_history(plan, seconds),
        *_execution(certificate),
    ]
    for name, text in rows:
        grid.add_row(name, text)
    return Group(
        *(Text(warning.text, style="bold red") for warning in warnings[:1] if is_first(warning)),
        _head(plan, graph, topology),
        grid,
        *move_table(plan),
        *_notes(plan, topology),
    )


def is_first(warning: PlanWarning) -> bool:
    """Whether a warning is the first line of a summary: most devices do nothing."""
    return warning.code == "idle-devices"


def _head(plan: Plan, graph: Graph | None, topology: Topology | None) -> RenderableType:
    of = (graph and graph.name) or plan.name or plan.graph[:18]
    on = (topology and topology.name) or plan.topology[:17]
    return Text.assemble(("Plan ", "bold"), f"{of} on {on}", (f"  {plan.id}", "dim"))


def _run(plan: Plan, graph: Graph | None, setup: Setup, throughput: Throughput) -> tuple[str, str]:
    symbols = symbols_of(graph, setup)
    parts = [", ".join(f"{name} {value}" for name, value in symbols.items())]
    parts.append(f"{plan.microbatches} microbatch{'es' if plan.microbatches > 1 else ''}")
    parts.append(_phase(setup))
    if throughput.samples_per_s is not None:
        parts.append(f"{throughput.samples_per_s:,.0f} samples/s")
    if throughput.tokens_per_s is not None:
        parts.append(f"{throughput.tokens_per_s:,.0f} tokens/s")
    return "run", "; ".join(part for part in parts if part)


def _rate(throughput: Throughput) -> Iterator[tuple[str, str]]:
    """Model FLOPs utilization, and the throughput of a device."""
    parts = []
    if throughput.utilization is not None:
        parts.append(f"model FLOPs utilization {show_share(throughput.utilization)}")
    tokens_per_s = throughput.per_device(throughput.tokens_per_s)
    samples_per_s = throughput.per_device(throughput.samples_per_s)
    if tokens_per_s is not None:
        parts.append(f"{tokens_per_s:,.0f} tokens/s per device")
    elif samples_per_s is not None:
        parts.append(f"{_count(samples_per_s)} samples/s per device")
    if parts:
        yield "rate", "; ".join(parts)


def _count(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _warnings(warnings: Sequence[PlanWarning]) -> Iterator[tuple[str, Text]]:
    """The warnings that are not the first line."""
    for warning in warnings:
        if not is_first(warning):
            yield "warning", Text(warning.text, style="yellow")


def _kinds(kinds: Sequence[KindTime]) -> Iterator[tuple[str, str]]:
    """The kinds of ops that take most time."""
    listed = [f"{kind.kind} {show_share(kind.share)}" for kind in kinds[:MOST_KINDS] if kind.share]
    if listed:
        yield "ops", f"{', '.join(listed)} of the time of all ops"


def _phase(setup: Setup) -> str:
    if setup.phase == "inference":
        return f"inference{_recipe(setup)}"
    summed = ", gradients summed over the batch" if setup.gradients == "sum" else ""
    return f"training, {setup.optimizer.name}{_recipe(setup)}{summed}"


def _recipe(setup: Setup) -> str:
    parts = [setup.precision if setup.precision != "graph" else "", setup.stack or ""]
    return "".join(f", {part}" for part in parts if part)


def _meshes(plan: Plan) -> Iterator[tuple[str, str]]:
    for stage in plan.stages:
        axes = " × ".join(
            f"{axis.name}={axis.size}" + (f" ({axis.level})" if axis.level != axis.name else "")
            for axis in stage.mesh.axes
        )
        legend = AxisNames(stage.mesh).legend
        yield "mesh", f"{axes or 'one device'}: {stage.mesh.device_count} devices{legend}"


_TRANSIENT_PARTS = ("cache", "recomputed", "working", "gathered", "buffers")


def _memory(plan: Plan) -> tuple[str, str]:
    use = plan.cost.memory_bytes
    parts = ["parameters", "gradients", "optimizer", "activations"]
    parts += [part for part in _TRANSIENT_PARTS if getattr(use, part)]
    parts.append("reserved")
    split = ", ".join(f"{part} {show_bytes(getattr(use, part))}" for part in parts)
    share = show_share(use.total / use.capacity) if use.capacity else "?"
    if use.capacity > use.total:
        share += f", headroom {show_bytes(use.capacity - use.total)}"
    largest_bytes = plan.largest_redistribution_bytes
    while_moved = (
        f"; the largest redistribution takes {show_bytes(largest_bytes)} while it runs"
        if largest_bytes
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
    # compute is the sum of the ops' times and the optimizer's
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


def _interval(
    interval_ns: tuple[float, float] | None, setup: Setup, memory: MemoryUse
) -> Iterator[tuple[str, str]]:
    """The 80 % interval of the step, and how likely the plan fits."""
    if interval_ns is None:
        return
    low, high = map(show_ns, interval_ns)
    of = f"the stack {setup.stack}" if setup.stack else "any stack; --stack narrows it"
    text = f"{low} to {high}: 80 % of published steps lie so around their prediction ({of})"
    yield "likely", f"{text}; fits with probability {probability_fits(memory, setup.stack):.2f}"


def _padding(plan: Plan) -> Iterator[tuple[str, str]]:
    """Padded sizes, with the dims that have them."""
    dims: dict[tuple[int, int], list[str]] = {}
    for padding in plan.padding:
        dims.setdefault((padding.size, padding.padded), []).append(
            f"{padding.tensor} dim {padding.dim}"
        )
    for place, ((size, padded), names) in enumerate(dims.items()):
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        text = f"{size} -> {padded} in {', '.join(names[:FEW])}{more}"
        yield "padding" if not place else "", text


def _order(plan: Plan) -> Iterator[tuple[str, str]]:
    """The load order of sequences, and the ops that use original positions."""
    for order in plan.order:
        dims = [f"{dim.tensor} dim {dim.dim}" for dim in order.loaded]
        ops = order.by_position
        parts = order.chunks // 2
        text = f"{order.size} positions in {order.chunks} chunks, "
        text += f"i and {order.chunks - 1}-i for part i of {parts}: {_first_names(dims)}; "
        text += f"by true positions: {_first_names(ops)}"
        yield "order", text


def _first_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{', '.join(names[:FEW])}{more}"


def _buckets(plan: Plan) -> Iterator[tuple[str, str]]:
    """The numbers of buckets and of their tensors, by collective."""
    counts_by_kind: dict[str, list[int]] = {}
    for stage in plan.stages:
        for bucket in stage.buckets:
            counts_by_kind.setdefault(bucket.collective, []).append(len(bucket.tensors))
    if counts_by_kind:
        yield (
            "fusion",
            ", ".join(
                f"{sum(counts)} {kind} in {len(counts)} bucket{'s' if len(counts) > 1 else ''}"
                for kind, counts in counts_by_kind.items()
            ),
        )


def _proof(plan: Plan, warnings: Sequence[PlanWarning]) -> tuple[str, str]:
    search = plan.search
    warned = f", with {', '.join(warning.code for warning in warnings)}" if warnings else ""
    return "proof", (
        f"{_bounded_quantity(plan)} {search.outcome}{warned}: {show_ns(search.cost_ns)}, "
        f"lower bound {show_ns(search.lower_bound_ns)}, gap {show_share(search.gap)}, "
        f"by {search.found_by} over {_meshes_in_words(len(search.meshes))}"
        + (f"; {show_ns(search.faster_ns)} more for a shorter step" if search.faster_ns else "")
    )


def _bound(plan: Plan) -> Iterator[tuple[str, str]]:
    """The bound on the step, and how much longer the plan's step is."""
    bound_ns, gap = plan.search.step_bound_ns, plan.step_gap
    if bound_ns is not None and gap is not None:
        every, above = "every configuration that was asked for", show_share(gap)
        yield "bound", f"{every} takes at least {show_ns(bound_ns)}; this plan takes {above} more"


def _meshes_in_words(count: int) -> str:
    return f"{count} mesh{'es' if count != 1 else ''}"


def _bounded_quantity(plan: Plan) -> str:
    """The quantity of bound and gap: the step of a pipeline, else the objective."""
    return "objective" if plan.schedule is None else "step"


def _history(plan: Plan, seconds: Sequence[float]) -> Iterator[tuple[str, str]]:
    for place, line in enumerate(history_lines(plan, seconds)):
        yield "search" if not place else "", line


def _execution(certificate: Certificate | None) -> Iterator[tuple[str, Text]]:
    if certificate is not None:
        good = certificate.outcome == "verified"
        yield "execution", Text(certificate_text(certificate), style="" if good else "bold red")


def _notes(plan: Plan, topology: Topology | None) -> list[RenderableType]:
    notes = [f"note: {note}" for note in (*plan.notes, plan_precision(plan, topology)) if note]
    if plan.unknown_kinds:
        notes.append(f"note: unknown kinds, kept replicated: {', '.join(plan.unknown_kinds)}")
    return [Text(note, style="yellow") for note in notes]
