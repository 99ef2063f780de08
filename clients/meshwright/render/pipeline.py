"""Pipeline of a plan as rows: its schedule and its stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby

from meshwright.common.units import show_bytes, show_ns, show_share
from meshwright.render.axes import AxisNames
from meshwright.reports.overview import own_ops
from meshwright.schema import Plan, Stage, Topology

SHOWN = 6  # chosen: listed configurations that were not selected


def pipeline_rows(plan: Plan, topology: Topology | None = None) -> Iterator[tuple[str, str]]:
    """Rows of the schedule and its stages; none for a plan of one stage.

    With a `topology` of a mixed cluster, each stage names its devices.
    """
    schedule = plan.schedule
    if schedule is None:
        return
    several = f", {schedule.stages_per_rank} stages each" if schedule.stages_per_rank > 1 else ""
    share = show_share(plan.cost.bubble_ns / plan.cost.step_ns)
    yield (
        "pipeline",
        f"{schedule.kind}: {schedule.ranks} ranks of {_device_counts(plan)} devices{several}; "
        f"bubble {show_ns(plan.cost.bubble_ns)} ({share} of the step)",
    )
    stage_counts = Counter(op.op for stage in plan.stages for op in stage.ops)
    for number, stage in enumerate(plan.stages):
        yield f"stage {number}", _stage(stage, own_ops(stage, stage_counts), topology)


def _device_counts(plan: Plan) -> str:
    """Devices per rank; adjacent ranks with equal counts are merged."""
    counts = {stage.pipeline_rank: stage.mesh.device_count for stage in plan.stages}
    merged = [count for count, _ in groupby(counts[rank] for rank in sorted(counts))]
    return " and ".join(map(str, merged))


def _devices(stage: Stage, topology: Topology | None) -> Iterator[str]:
    """The device name of a stage, where the cluster has several kinds."""
    if topology is not None and topology.beside:
        ends = accumulate(group.device_count for group in topology.groups)
        for group, end in zip(topology.groups, ends, strict=True):
            if stage.ranks_from < end:
                yield f"on {stage.mesh.device_count} {group.device.name}"
                return


def considered_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Other configurations, the best first: a few, and those on the time-memory Pareto front."""
    others = plan.search.considered
    shown = [
        configuration
        for place, configuration in enumerate(others)
        if place < SHOWN or configuration.on_front
    ]
    for place, configuration in enumerate(shown):
        text = f"{configuration.configuration}: {configuration.why}"
        if configuration.memory_bytes is not None:
            text += f"; {show_bytes(configuration.memory_bytes)}"
        if configuration.on_front:
            text += ", less than anything faster"
        yield "considered" if not place else "", text
    if len(others) > len(shown):
        yield "", f"and {len(others) - len(shown)} more"


def _stage(stage: Stage, ops: Sequence[str], topology: Topology | None) -> str:
    axes = " × ".join(f"{axis.name}={axis.size}" for axis in stage.mesh.axes)
    parts = [f"rank {stage.pipeline_rank}, {ops[0]} … {ops[-1]} ({len(ops)} ops)"]
    parts += _devices(stage, topology)
    parts.append(f"mesh {axes}{AxisNames(stage.mesh).legend}")
    passes = stage.passes
    if passes is not None:
        backward_ns = passes.inputs_ns + passes.weights_ns
        parts.append(
            f"forward {show_ns(passes.forward_ns)}, backward {show_ns(backward_ns)} a microbatch, "
            f"once {show_ns(passes.step_ns)}"
        )
    received_ns = sum(receive.forward_ns for receive in stage.receives)
    if stage.receives:
        size = sum(receive.bytes for receive in stage.receives)
        parts.append(f"receives {show_bytes(size)} in {show_ns(received_ns)}")
    parts.append(f"holds {stage.in_flight} microbatch{'es' if stage.in_flight > 1 else ''}")
    if stage.memory_bytes is not None:
        parts.append(show_bytes(stage.memory_bytes.total))
    return "; ".join(parts)
