"""Warnings on a plan: signs that a faster plan, another request or a repair of the model exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.common.units import show_bytes, show_share
from meshwright.reports.op_times import kind_times
from meshwright.reports.throughput import Throughput, throughput_of
from meshwright.schema import Graph, Plan, Request, Setup
from meshwright.schema.overview import KindTime, PlanWarning
from meshwright.schema.setup import step_batch
from meshwright.schema.waste import waste_of

# chosen: published training of dense models and mixtures of experts reaches 20 to 60 % of peak
LEAST_UTILIZATION = 0.10
MOST_UTILIZATION = 0.65
USUAL_UTILIZATION = 0.30
REPLICATED_SHARE = 0.05  # chosen: of the step
FULL_SHARE = 0.95  # chosen: of the device memory, the reserve included


def request_warnings(plan: Plan, request: Request) -> tuple[PlanWarning, ...]:
    """The warnings of the plan for a request."""
    graph, setup = request.graph, request.setup
    throughput = throughput_of(plan, graph, request.topology, setup)
    return plan_warnings(plan, graph, setup, throughput, kind_times(plan))


def plan_warnings(
    plan: Plan,
    graph: Graph | None,
    setup: Setup,
    throughput: Throughput,
    kinds: Sequence[KindTime],
) -> tuple[PlanWarning, ...]:
    """The warnings of a plan, most severe first."""
    return (
        *_waste(plan, graph, setup),
        *_utilization(setup, throughput),
        *_replicated(plan, kinds),
        *_batch(graph, setup, throughput),
        *_full_memory(plan),
    )


def _waste(plan: Plan, graph: Graph | None, setup: Setup) -> Iterator[PlanWarning]:
    if text := waste_of(plan, graph, setup).headline:
        yield PlanWarning(code="idle-devices", text=text)


def _utilization(setup: Setup, throughput: Throughput) -> Iterator[PlanWarning]:
    utilization = throughput.utilization
    if utilization is None or setup.phase != "training":
        return
    if utilization < LEAST_UTILIZATION:
        yield PlanWarning(
            code="low-utilization",
            text=f"The model FLOPs utilization is {show_share(utilization)}. Look at the kinds of "
            "ops that take most time: an op may be captured in a form that cannot be sharded, or "
            "the batch may be too small.",
        )
    elif utilization > MOST_UTILIZATION:
        yield PlanWarning(
            code="high-utilization",
            text=f"The model FLOPs utilization is {show_share(utilization)}, above that of "
            "published training. Measure the cluster with `meshwright agent`, and plan with the "
            "calibration.",
        )


def _replicated(plan: Plan, kinds: Sequence[KindTime]) -> Iterator[PlanWarning]:
    """Kinds whose ops run whole on every device of their stage, by the mean of the ranks."""
    ranks = len({stage.ranks_from for stage in plan.stages})
    for kind in kinds:
        share = kind.replicated_ns / ranks / plan.cost.step_ns if plan.cost.step_ns else 0.0
        if share > REPLICATED_SHARE:
            yield PlanWarning(
                code="replicated-op",
                text=f"Replicated ops of kind {kind.kind} take {show_share(share)} of the step.",
            )


def _batch(graph: Graph | None, setup: Setup, throughput: Throughput) -> Iterator[PlanWarning]:
    """Batches that data parallelism cannot divide over all devices, where devices are slow.

    Such a batch is normal where other parallelism keeps the devices busy.
    """
    batch = None if graph is None else step_batch(graph, setup)
    utilization, devices = throughput.utilization, throughput.devices
    is_slow = utilization is None or utilization < USUAL_UTILIZATION
    if batch is None or not is_slow:
        return
    if batch < devices:
        yield PlanWarning(
            code="small-batch",
            text=f"The batch of {batch:,} samples is smaller than the {devices:,} devices. Use a "
            "larger batch or fewer devices.",
        )
    elif batch % devices and setup.uneven == "refuse":
        below = batch - batch % devices
        yield PlanWarning(
            code="indivisible-batch",
            text=f"The batch of {batch:,} samples does not divide over {devices:,} devices, and "
            "sizes that do not divide are not sharded. Use a multiple of the devices, such as "
            f"{below:,} or {below + devices:,}, or allow uneven shards (`uneven` chunk).",
        )


def _full_memory(plan: Plan) -> Iterator[PlanWarning]:
    use = plan.cost.memory_bytes
    if use.capacity and use.total > FULL_SHARE * use.capacity:
        yield PlanWarning(
            code="full-memory",
            text=f"The peak memory is {show_share(use.total / use.capacity)} of the device, with "
            f"{show_bytes(use.reserved)} of reserve. A plan with more headroom is safer: raise "
            "`memory_reserve`.",
        )
