"""The child process that runs one verification.

It reads a plan file and answers with {"certificate": …}, and {"trace": …} if the verifier raised.
"""

from __future__ import annotations

import traceback

from meshwright.planfile import PlanFile
from meshwright.plugins.planner import certificate_of, find_verifier
from meshwright.schema import Certificate, Request, Setup
from meshwright_service.common.memory_limit import limit_memory
from meshwright_service.processes.child_main import ParentMessages


def verify(sent: bytes, messages: ParentMessages, verifier: str, memory_bytes: int) -> None:
    """Execute a plan by the named verifier within a memory limit."""
    limit = limit_memory(memory_bytes)
    file = PlanFile.from_json(sent)
    assert file.graph is not None
    assert file.topology is not None
    request = Request(
        graph=file.graph,
        topology=file.topology,
        setup=file.setup or Setup(),
        calibration=file.calibration,
    )
    trace = None
    try:
        certificate = certificate_of(find_verifier(verifier), file.plan, request)
    except MemoryError:
        why = f"memory: executing it takes more than {limit / 2**30:.1f} GiB"
        certificate = Certificate(plan=file.plan.id, outcome="not verifiable", detail=why)
    except Exception as bug:
        trace = traceback.format_exc()
        why = f"the verifier failed: {type(bug).__name__}: {bug}"
        certificate = Certificate(plan=file.plan.id, outcome="not verifiable", detail=why)
    messages.write({"certificate": certificate.to_dict(), **({"trace": trace} if trace else {})})
