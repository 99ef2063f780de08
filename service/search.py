"""The process of one search: `python -m service.search PLANNER`.

Reads the request as one line of JSON and writes lines of JSON: any number of {"progress": …}, then
one of {"plan": …}, {"infeasible": …}, {"problem": …}, {"fault": traceback}. Ends with its parent.
"""

from __future__ import annotations

import sys
import time
import traceback
from typing import Any

from meshwright.planner import find_planner
from meshwright.schema import Answer, MeshwrightError, Progress, Request
from service.child_process import Lines, converse

INTERVAL_S = 0.1  # between two reports of one phase; chosen


class Reporter:
    """Writes progress, of one phase at most every INTERVAL_S."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._phase = ""
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.phase == self._phase and now < self._next and progress.done < progress.total:
            return
        self._phase, self._next = progress.phase, now + INTERVAL_S
        self._lines.write({"progress": progress.model_dump(mode="json", exclude_none=True)})


def main() -> None:
    """Answer the request on standard input."""
    text, lines = converse()
    try:
        request = Request.from_json(text)
        answer = find_planner(sys.argv[1])(request, Reporter(lines))
        lines.write(_message(answer))
    except MeshwrightError as error:
        lines.write({"problem": error.problem()})
    except Exception:
        lines.write({"fault": traceback.format_exc()})


def _message(answer: Answer) -> dict[str, Any]:
    if answer.plan is not None:
        return {"plan": answer.plan.to_dict()}
    if answer.infeasible is not None:
        return {"infeasible": answer.infeasible.model_dump(mode="json", exclude_none=True)}
    return {"fault": "the planner answered with neither a plan nor why there is none"}


if __name__ == "__main__":
    main()
