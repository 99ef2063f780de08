"""The process of one search: `python -m service.search PLANNER`.

Reads the request as one line of JSON and writes lines of JSON: any number of {"progress": …}, then
one of {"plan": …}, {"infeasible": …}, {"problem": …}, {"fault": traceback}. Ends with its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any, TextIO

from meshwright.planner import find_planner
from meshwright.schema import Answer, MeshwrightError, Progress, Request

INTERVAL_S = 0.1  # between two reports of one phase; chosen
PR_SET_PDEATHSIG = 1


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


class Lines:
    """JSON, one value a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, value: dict[str, Any]) -> None:
        self._stream.write(json.dumps(value, separators=(",", ":")) + "\n")
        self._stream.flush()


def main() -> None:
    """Answer the request on standard input."""
    _end_with_parent()
    lines = Lines(_private_stdout())
    text = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_pipe, daemon=True).start()
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


def _private_stdout() -> TextIO:
    """The pipe to the parent; what a library prints goes to standard error instead."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "w", encoding="utf-8")


def _end_with_parent() -> None:
    """On Linux the kernel ends this process with the thread that started it."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent or parent == 1:
            os._exit(1)


def _end_with_pipe() -> None:
    """Elsewhere, and for safety: the parent holds the other end of standard input."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
