"""Processes of the service: copies of one that has no threads and has what they need loaded.

So a search begins in some 30 ms. Starting Python anew and loading the planner takes two seconds of
a core, more than most searches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from meshwright.common.process_pool import context

MODULES = (
    "meshwright_service.workers.search_process", "meshwright_service.workers.verify_process",
    "meshwright_service.workers.explain_process", "meshwright_service.plan_views.simulation_view",
    "meshwright_solver.planning.planner", "meshwright_solver.verification.verify",
    "meshwright_solver.search.integer.cp_sat", "scipy.sparse.csgraph",
    "meshwright_service.cli.main",
)  # fmt: skip


PATIENCE_S = 10.0  # chosen: a process that was killed is gone by then, and the next one listens
AGAIN_S = 0.05


def pipe(*, duplex: bool) -> tuple[Connection, Connection]:
    """Two ends, either of which can be given to a process."""
    ends: tuple[Connection, Connection] = context(MODULES).Pipe(duplex)
    return ends


def begun(target: Callable[..., None], *given: Any, daemon: bool = False) -> BaseProcess:
    """A process that calls a function of a module.

    The one that is copied begins with the first, and anew where somebody killed it. Raises OSError
    or EOFError where that does not help.
    """
    until = time.monotonic() + PATIENCE_S
    ways: Any = context(MODULES)
    while True:
        process: BaseProcess = ways.Process(target=target, args=given, daemon=daemon)
        try:
            process.start()
        except (OSError, EOFError):
            if time.monotonic() > until:
                raise
            threading.Event().wait(AGAIN_S)  # time.sleep fails where libfaketime sets the clock
        else:
            return process
