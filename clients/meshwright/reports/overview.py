"""Overview of a plan: its cost, stages and degrees, without its ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from meshwright.launch_options.roles import OpRoles, axis_roles, op_roles
from meshwright.launch_options.uniform import uniform_of
from meshwright.reports.likelihood import probability_fits
from meshwright.reports.op_times import MOST_KINDS, kind_times
from meshwright.reports.parallel_shares import parallel_shares
from meshwright.reports.plan_warnings import plan_warnings
from meshwright.reports.step_interval import step_interval_ns
from meshwright.reports.throughput import throughput_of
from meshwright.reports.wishes import wish_texts
from meshwright.schema import Calibration, Graph, MemoryUse, Plan, Setup, Stage, Topology
from meshwright.schema.overview import Overview, StageOverview

MOST_DIFFERING = 100  # chosen: kinds of differences; exports name all


def overview_of(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Overview:
    """The overview of a plan; PlanError where the graph is not the plan's."""
    often = Counter(op.op for stage in plan.stages for op in stage.ops)
    throughput = throughput_of(plan, graph, topology, setup)
    kinds = kind_times(plan)
    warnings = plan_warnings(plan, graph, setup, throughput, kinds)
    uniform = uniform_of(plan, graph, setup)
    differences = uniform.differing
    roles = [op_roles(stage, graph) for stage in plan.stages]
    return Overview(
        plan=plan.id,
        name=plan.name,
        graph=plan.graph,
        graph_name=graph.name,
        topology=plan.topology,
        topology_name=topology.name,
        setup=setup,
        calibration=plan.calibration,
        calibration_name=calibration.name,
        wishes=plan.wishes,
        asked=(*wish_texts(plan.wishes), *(f"pin {pin}" for pin in plan.wishes.pins)),
        step_interval_ns=step_interval_ns(plan, setup, calibration),
        fits_probability=(
            probability_fits(plan.cost.memory_bytes, setup.stack)
            if setup.phase == "training"
            else None
        ),
        samples_per_s=throughput.samples_per_s,
        tokens_per_s=throughput.tokens_per_s,
        tokens_per_s_per_device=throughput.per_device(throughput.tokens_per_s),
        model_flops=throughput.model_flops,
        utilization=throughput.utilization,
        kinds=tuple(kinds[:MOST_KINDS]),
        warnings=warnings,
        microbatches=plan.microbatches,
        schedule=plan.schedule,
        uniform=uniform.model_copy(update={"differing": differences[:MOST_DIFFERING]}),
        parallelism=parallel_shares(list(zip(plan.stages, roles, strict=True))),
        differing=sum(difference.count for difference in differences),
        differing_kinds=len(differences),
        stages=tuple(
            _stage(plan, number, of_stage, often) for number, of_stage in enumerate(roles)
        ),
        cost=plan.cost,
        search=plan.search,
        repeated_work=plan.repeated_work,
        waste=next((one.text for one in warnings if one.code == "idle-devices"), ""),
        unknown_kinds=plan.unknown_kinds,
        padding=plan.padding,
        collectives=sum(len(bucket.tensors) for stage in plan.stages for bucket in stage.buckets),
        buckets=sum(len(stage.buckets) for stage in plan.stages),
        notes=plan.notes,
    )


def own_ops(stage: Stage, stage_counts: Mapping[str, int]) -> list[str]:
    """The names of ops that belong to this stage only; all ops of the stage where none does.

    `stage_counts` is the number of stages of each op.
    """
    names = [op.op for op in stage.ops if stage_counts[op.op] == 1 and op.kind != "receive"]
    return names or [op.op for op in stage.ops]


def _stage(
    plan: Plan, number: int, ops_roles: list[OpRoles], often: Mapping[str, int]
) -> StageOverview:
    stage = plan.stages[number]
    ops = own_ops(stage, often)
    use = plan.cost.memory_bytes if plan.schedule is None else stage.memory_bytes or MemoryUse()
    recompute = stage.recompute
    roles = axis_roles(stage, ops_roles)
    return StageOverview(
        stage=number,
        pipeline_rank=stage.pipeline_rank,
        first_rank=stage.ranks_from,
        devices=stage.mesh.device_count,
        mesh=stage.mesh,
        roles={axis.name: role for axis in stage.mesh.axes if (role := roles[axis.name])},
        ops=len(stage.ops),
        first=ops[0],
        last=ops[-1],
        in_flight=stage.in_flight,
        passes=stage.passes,
        received_bytes=sum(receive.bytes for receive in stage.receives),
        received_ns=sum(receive.forward_ns for receive in stage.receives),
        recompute=None if recompute is None else recompute.policy,
        again=0 if recompute is None else sum(len(segment.again) for segment in recompute.segments),
        uneven=stage.uneven,
        memory_bytes=use.total,
        capacity_bytes=use.capacity or plan.cost.memory_bytes.capacity,
    )
