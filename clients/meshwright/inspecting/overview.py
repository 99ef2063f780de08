"""A plan in sight: its numbers, stages and degrees, without its ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from meshwright.inspecting.wishes import wish_texts
from meshwright.launch.roles import axis_roles, op_roles
from meshwright.launch.uniform import uniform_of
from meshwright.schema import Calibration, Graph, MemoryUse, Plan, Setup, Stage, Topology
from meshwright.schema.overview import Overview, StageOverview

MOST_DIFFERING = 100  # kinds; chosen: exports name all


def overview_of(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Overview:
    """The overview of a plan; PlanError where the graph is another one than the plan's."""
    often = Counter(op.op for stage in plan.stages for op in stage.ops)
    samples_per_s, tokens_per_s = rates_of(plan, graph, setup)
    uniform = uniform_of(plan, graph, setup)
    others = uniform.differing
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
        samples_per_s=samples_per_s,
        tokens_per_s=tokens_per_s,
        microbatches=plan.microbatches,
        schedule=plan.schedule,
        uniform=uniform.model_copy(update={"differing": others[:MOST_DIFFERING]}),
        differing=sum(own.count for own in others),
        differing_kinds=len(others),
        stages=tuple(_stage(plan, graph, number, often) for number in range(len(plan.stages))),
        cost=plan.cost,
        search=plan.search,
        repeated_work=plan.repeated_work,
        unknown_kinds=plan.unknown_kinds,
        padding=plan.padding,
        collectives=sum(len(own.tensors) for stage in plan.stages for own in stage.buckets),
        buckets=sum(len(stage.buckets) for stage in plan.stages),
        notes=plan.notes,
    )


def symbols_of(graph: Graph | None, setup: Setup) -> dict[str, int]:
    """The sizes that a step has: the graph's, and what the setup says instead."""
    symbols = {**(graph.symbols if graph else {}), **setup.symbols}
    if setup.global_batch is not None:
        symbols["batch"] = setup.global_batch
    return symbols


def rates_of(plan: Plan, graph: Graph | None, setup: Setup) -> tuple[float | None, float | None]:
    """Samples a second, and tokens; None of what the graph has not."""
    symbols = symbols_of(graph, setup)
    if "batch" not in symbols or not plan.cost.step_ns:
        return None, None
    samples_per_s = symbols["batch"] / plan.cost.step_ns * 1e9
    return samples_per_s, samples_per_s * symbols["seq"] if "seq" in symbols else None


def own_ops(stage: Stage, often: Mapping[str, int]) -> list[str]:
    """The ops that a stage shares with no other, which say what it does; all where it has none.

    often: in so many stages each op is.
    """
    own = [op.op for op in stage.ops if often[op.op] == 1 and op.kind != "receive"]
    return own or [op.op for op in stage.ops]


def _stage(plan: Plan, graph: Graph, number: int, often: Mapping[str, int]) -> StageOverview:
    stage = plan.stages[number]
    own = own_ops(stage, often)
    use = plan.cost.memory_bytes if plan.schedule is None else stage.memory_bytes or MemoryUse()
    again = stage.recompute
    roles = axis_roles(stage, op_roles(stage, graph))
    return StageOverview(
        stage=number,
        pipeline_rank=stage.pipeline_rank,
        first_rank=stage.ranks_from,
        devices=stage.mesh.device_count,
        mesh=stage.mesh,
        roles={axis.name: role for axis in stage.mesh.axes if (role := roles[axis.name])},
        ops=len(stage.ops),
        first=own[0],
        last=own[-1],
        in_flight=stage.in_flight,
        passes=stage.passes,
        received_bytes=sum(given.bytes for given in stage.receives),
        received_ns=sum(given.forward_ns for given in stage.receives),
        recompute=None if again is None else again.policy,
        again=0 if again is None else sum(len(own.again) for own in again.segments),
        uneven=stage.uneven,
        memory_bytes=use.total,
        capacity_bytes=use.capacity or plan.cost.memory_bytes.capacity,
    )
