"""Whether what a plan keeps in hosts' memory fits there.

A search knows one limit, that of devices. Where all that may lie on hosts could be too much it
keeps them as finely sharded as can be (`AtRest.finest_on_host`); what is still too much is refused
here. So an answer without a plan names a real lack, but a plan that keeps less on hosts and more on
devices may be missed.
"""

from __future__ import annotations

from meshwright.schema import Answer, Infeasible, Request

GIB = 2**30


def within_host(answer: Answer, request: Request) -> Answer:
    """The answer, or that its plan does not fit into hosts."""
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
                f"what is offloaded needs {needed / GIB:.1f} GiB of a device's share of its host, "
                f"{request.topology.host.name} has {available / GIB:.1f} GiB after the reserve; "
                "more devices, or offloading less (`optimizer` or `embeddings` alone), would do"
            ),
            needed_bytes=needed,
            available_bytes=available,
        ),
        ended_early=answer.ended_early,
    )
