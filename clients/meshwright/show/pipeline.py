"""A plan's pipeline: its schedule and, line by line, its stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby

from meshwright.inspecting.overview import own_ops
from meshwright.schema import Plan, Stage, Topology
from meshwright.show.axes import AxisNames
from meshwright.units import show_bytes, show_ns, show_share

SHOWN = 6  # chosen: configurations that were considered and lost


def pipeline_rows(plan: Plan, topology: Topology | None = None) -> Iterator[tuple[str, str]]:
    """Nothing for a plan of one stage. topology: stages of a mixed cluster say their devices."""
    said = plan.schedule
    if said is None:
        return
    several = f", {said.stages_per_rank} stages each" if said.stages_per_rank > 1 else ""
    share = show_share(plan.cost.bubble_ns / plan.cost.step_ns)
    yield (
        "pipeline",
        f"{said.kind}: {said.ranks} ranks of {_device_counts(plan)} devices{several}; "
        f"bubble {show_ns(plan.cost.bubble_ns)} ({share} of the step)",
    )
    often = Counter(op.op for stage in plan.stages for op in stage.ops)
    for number, stage in enumerate(plan.stages):
        yield f"stage {number}", _stage(stage, own_ops(stage, often), topology)


def _device_counts(plan: Plan) -> str:
    """Of every rank, those of neighbours that have as many once."""
    counts = {stage.pipeline_rank: stage.mesh.device_count for stage in plan.stages}
    found = [count for count, _ in groupby(counts[rank] for rank in sorted(counts))]
    return " and ".join(map(str, found))


def _devices(stage: Stage, topology: Topology | None) -> Iterator[str]:
    """The kind of device where there are several."""
    if topology is not None and topology.beside:
        ends = accumulate(group.device_count for group in topology.groups)
        for group, end in zip(topology.groups, ends, strict=True):
            if stage.ranks_from < end:
                yield f"on {stage.mesh.device_count} {group.device.name}"
                return


def considered_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Other configurations, the best first: some, and those that nothing faster undercuts."""
    others = plan.search.considered
    shown = [own for place, own in enumerate(others) if place < SHOWN or own.on_front]
    for place, own in enumerate(shown):
        said = f"{own.configuration}: {own.why}"
        if own.memory_bytes is not None:
            said += f"; {show_bytes(own.memory_bytes)}"
        if own.on_front:
            said += ", less than anything faster"
        yield "considered" if not place else "", said
    if len(others) > len(shown):
        yield "", f"and {len(others) - len(shown)} more"


def _stage(stage: Stage, own: Sequence[str], topology: Topology | None) -> str:
    axes = " × ".join(f"{axis.name}={axis.size}" for axis in stage.mesh.axes)
    parts = [f"rank {stage.pipeline_rank}, {own[0]} … {own[-1]} ({len(own)} ops)"]
    parts += _devices(stage, topology)
    parts.append(f"mesh {axes}{AxisNames(stage.mesh).legend}")
    passes = stage.passes
    if passes is not None:
        backward_ns = passes.inputs_ns + passes.weights_ns
        parts.append(
            f"forward {show_ns(passes.forward_ns)}, backward {show_ns(backward_ns)} a microbatch, "
            f"once {show_ns(passes.step_ns)}"
        )
    received_ns = sum(given.forward_ns for given in stage.receives)
    if stage.receives:
        size = sum(given.bytes for given in stage.receives)
        parts.append(f"receives {show_bytes(size)} in {show_ns(received_ns)}")
    parts.append(f"holds {stage.in_flight} microbatch{'es' if stage.in_flight > 1 else ''}")
    if stage.memory_bytes is not None:
        parts.append(show_bytes(stage.memory_bytes.total))
    return "; ".join(parts)
