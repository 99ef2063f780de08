"""The process of one explanation: `python -m service.explaining GLOB SECONDS MEMORY_BYTES`.

Reads a plan file as one line of JSON and writes one line: {"explanation": …}, {"problem": …} or
{"fault": trace}. Ends with its parent.
"""

from __future__ import annotations

import sys
import traceback

from meshwright.planfile import PlanFile
from meshwright.schema import MeshwrightError, Setup
from service.child_process import converse
from service.memory_limit import limit_memory
from solver.explaining.explain import explain_documents


def main() -> None:
    """Explain the plan on standard input."""
    text, lines = converse()
    glob, seconds = sys.argv[1], float(sys.argv[2])
    limit_memory(int(sys.argv[3]))
    try:
        file = PlanFile.from_json(text)
        assert file.graph is not None
        assert file.topology is not None
        made = explain_documents(
            file.plan, file.graph, file.topology, file.setup or Setup(), file.calibration,
            glob=glob, seconds=seconds,
        )  # fmt: skip
        lines.write({"explanation": made.to_dict()})
    except MeshwrightError as error:
        lines.write({"problem": error.problem()})
    except Exception:
        lines.write({"fault": traceback.format_exc()})


if __name__ == "__main__":
    main()
