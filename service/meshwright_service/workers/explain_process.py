"""The child process that computes one explanation.

It reads a plan file and answers with {"explanation": …}, {"problem": …} or {"fault": traceback}.
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
    """Explain the ops of a plan that match `glob`, within a time and a memory limit."""
    limit_memory(memory_bytes)
    try:
        file = PlanFile.from_json(sent)
        assert file.graph is not None
        assert file.topology is not None
        explanation = explain_documents(
            file.plan, file.graph, file.topology, file.setup or Setup(), file.calibration,
            glob=glob, seconds=seconds,
        )  # fmt: skip
        messages.write({"explanation": explanation.to_dict()})
    except MeshwrightError as error:
        messages.write({"problem": error.problem()})
    except Exception:
        messages.write({"fault": traceback.format_exc()})
