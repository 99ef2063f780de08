"""Sweeps: the points of a sweep, their requests, their rows, and a run in local processes."""

from meshwright.sweeps.local_run import run_sweep
from meshwright.sweeps.points import points_of, request_of
from meshwright.sweeps.rows import row_of, with_front

__all__ = ["points_of", "request_of", "row_of", "run_sweep", "with_front"]
