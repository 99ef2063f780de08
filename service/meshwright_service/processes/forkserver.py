"""Forkserver: child processes are forks of a process without threads and with the modules loaded.

A search so starts in about 30 ms. Starting Python and loading the planner takes two seconds of a
core, more than most searches.
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


PATIENCE_S = 10.0  # chosen: a killed forkserver is replaced within this time
AGAIN_S = 0.05


def pipe(*, duplex: bool) -> tuple[Connection, Connection]:
    """A pair of connections that can be passed to a process."""
    ends: tuple[Connection, Connection] = context(MODULES).Pipe(duplex)
    return ends


def start_process(
    target: Callable[..., None], *arguments: Any, daemon: bool = False
) -> BaseProcess:
    """Start a process that calls a function of a module.

    The first call starts the forkserver; a killed forkserver is started again. Raises OSError or
    EOFError after PATIENCE_S.
    """
    until = time.monotonic() + PATIENCE_S
    context_: Any = context(MODULES)
    while True:
        process: BaseProcess = context_.Process(target=target, args=arguments, daemon=daemon)
        try:
            process.start()
        except (OSError, EOFError):
            if time.monotonic() > until:
                raise
            threading.Event().wait(AGAIN_S)  # time.sleep fails where libfaketime sets the clock
        else:
            return process
