"""The process of one verification: `python -m service.verification VERIFIER MEMORY_BYTES`.

Reads a plan file as one line of JSON and writes one line: {"certificate": …}, with {"trace": …}
beside it where the verifier has a bug. Ends with its parent.
"""

from __future__ import annotations

import sys
import traceback

from meshwright.planfile import PlanFile
from meshwright.planner import certificate_of, find_verifier
from meshwright.schema import Certificate, Request, Setup
from service.child_process import converse
from service.memory_limit import limit_memory


def main() -> None:
    """Verify the plan on standard input."""
    text, lines = converse()
    limit = limit_memory(int(sys.argv[2]))
    file = PlanFile.from_json(text)
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
        certificate = certificate_of(find_verifier(sys.argv[1]), file.plan, request)
    except MemoryError:
        why = f"memory: executing it takes more than {limit / 2**30:.1f} GiB"
        certificate = Certificate(plan=file.plan.id, outcome="not verifiable", detail=why)
    except Exception as bug:
        trace = traceback.format_exc()
        why = f"the verifier failed: {type(bug).__name__}: {bug}"
        certificate = Certificate(plan=file.plan.id, outcome="not verifiable", detail=why)
    lines.write({"certificate": certificate.to_dict(), **({"trace": trace} if trace else {})})


if __name__ == "__main__":
    main()
