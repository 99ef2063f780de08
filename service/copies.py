"""Processes of the service: copies of one that has no threads and has what they need loaded.

So a search begins in some 30 ms. Starting Python anew and loading the planner takes two seconds of
a core, more than most searches.
"""

from __future__ import annotations

from typing import Any

from meshwright.processes import context

MODULES = (
    "service.search", "service.verification", "service.explaining", "service.simulating",
    "solver.planner", "solver.verify", "solver.integer.cp_sat", "scipy.sparse.csgraph",
    "service.cli",
)  # fmt: skip


def copies() -> Any:
    """What makes them, with the interface of `multiprocessing`.

    The process that is copied begins with the first that is asked for; anew where it was killed.
    """
    return context(MODULES)
