"""The process of one explanation.

It is sent a plan file and answers {"explanation": …}, {"problem": …} or {"fault": trace}.
"""

from __future__ import annotations

import traceback

from meshwright.planfile import PlanFile
from meshwright.schema import MeshwrightError, Setup
from meshwright_service.common.memory_limit import limit_memory
from meshwright_service.processes.child_main import ParentMessages
from meshwright_solver.planning.explanation.explain import explain_documents


def explain(
    sent: bytes, messages: ParentMessages, glob: str, seconds: float, memory_bytes: int
) -> None:
    """Explain the ops of a plan that a glob means, in so many seconds and so much memory."""
    limit_memory(memory_bytes)
    try:
        file = PlanFile.from_json(sent)
        assert file.graph is not None
        assert file.topology is not None
        made = explain_documents(
            file.plan, file.graph, file.topology, file.setup or Setup(), file.calibration,
            glob=glob, seconds=seconds,
        )  # fmt: skip
        messages.write({"explanation": made.to_dict()})
    except MeshwrightError as error:
        messages.write({"problem": error.problem()})
    except Exception:
        messages.write({"fault": traceback.format_exc()})
