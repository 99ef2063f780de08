"""The figures of a plan, from the plan and the request that it answers."""

from __future__ import annotations

from meshwright.launch_options.uniform import uniform_of
from meshwright.reports.step_interval import step_interval_ns
from meshwright.reports.throughput import symbols_of, throughput_of
from meshwright.schema import Plan, Request
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.uniform_degrees import Uniform


def figures_of(plan: Plan, request: Request) -> PlanFigures:
    """The figures of a plan for its request."""
    graph, setup = request.graph, request.setup
    throughput = throughput_of(plan, graph, request.topology, setup)
    uniform = uniform_of(plan, graph, setup)
    symbols = symbols_of(graph, setup)
    memory = plan.cost.memory_bytes
    return PlanFigures(
        plan=plan.id,
        outcome=plan.search.outcome,
        gap=plan.search.gap,
        step_ns=plan.cost.step_ns,
        step_interval_ns=step_interval_ns(plan, setup, request.calibration),
        devices=throughput.devices,
        batch=symbols.get("batch"),
        sequence=symbols.get("seq"),
        samples_per_s=throughput.samples_per_s,
        tokens_per_s=throughput.tokens_per_s,
        utilization=throughput.utilization,
        memory_bytes=memory.total,
        capacity_bytes=memory.capacity,
        microbatches=plan.microbatches,
        degrees=degrees_text(uniform),
        differing=sum(difference.count for difference in uniform.differing),
        recompute=uniform.recompute,
    )


def degrees_text(uniform: Uniform) -> str:
    """The degrees above 1 and the ZeRO level, such as `dp 8 · tp 4 · pp 2 · ZeRO 1`."""
    degrees = uniform.degrees
    ways = {
        "dp": degrees.dp or 1,
        "tp": degrees.tp,
        "cp": degrees.cp,
        "ep": degrees.ep,
        "pp": uniform.pipeline_ranks,
    }
    parts = [f"{name} {size}" for name, size in ways.items() if size > 1]
    if uniform.stages_per_rank > 1:
        parts.append(f"vp {uniform.stages_per_rank}")
    if degrees.zero:
        parts.append(f"ZeRO {degrees.zero}")
    return " · ".join(parts) or "one device"
