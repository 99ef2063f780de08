"""The checks of offloaded state: that there is a host, and that its memory suffices.

The search has one limit, that of device memory. If the offloaded state could exceed host memory,
the search shards it as finely as possible (`OptimizerSharding.finest_on_host`); this module refuses
a plan that still exceeds it. A refusal therefore names a real shortfall, but the search may miss a
plan with less on hosts and more on devices.
"""

from __future__ import annotations

from meshwright.schema import Answer, Infeasible, Request, RequestError

GIB = 2**30


def check_host(request: Request) -> None:
    """Raise RequestError where the request offloads and the topology states no host."""
    offload, topology = request.constraints.offload, request.topology
    if offload != "none" and topology.host is None and not topology.beside:
        raise RequestError(
            f"offload {offload}: the topology {topology.name!r} has no host memory. Use offload "
            "none, or a topology file with the field `host`",
            pointer="/constraints/offload",
        )


def within_host(answer: Answer, request: Request) -> Answer:
    """The answer, or an infeasible one if the plan exceeds host memory."""
    if answer.plan is None or request.topology.host is None:
        return answer
    needed = answer.plan.cost.memory_bytes.host
    available = int(request.topology.host.memory_bytes * request.setup.usable_memory)
    if needed <= available:
        return answer
    return Answer(
        infeasible=Infeasible(
            constraint="memory",
            detail=(
                f"the offloaded state needs {needed / GIB:.1f} GiB of a device's share of its "
                f"host; {request.topology.host.name} has {available / GIB:.1f} GiB after the "
                "reserve. Use more devices, or offload less: `optimizer` or `embeddings` alone"
            ),
            needed_bytes=needed,
            available_bytes=available,
        ),
        ended_early=answer.ended_early,
    )
