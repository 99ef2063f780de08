"""Tiny verifiers for the tests of the service: real processes, outcomes known beforehand."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from meshwright.schema import Calibration, Certificate, Graph, Plan, PlanError, Setup, Topology

MARK = "MARK_FILE"  # names a file in which the slow verifiers leave their process id


def passing(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
    seed: int = 0,
) -> Certificate:
    """Everything is right: as many tensors as the graph has."""
    del topology, setup, calibration
    print("a library prints this", flush=True)  # noqa: T201  must not disturb the pipe
    tensors = len(graph.tensors)
    return Certificate(plan=plan.id, outcome="verified", tensors=tensors, gradients=2, seed=seed)


def failing(plan: Plan, *_: object) -> Certificate:
    """The plan is wrong."""
    return Certificate(plan=plan.id, outcome="failed", detail="tensor 'y' differs")


def contradicting(plan: Plan, *_: object) -> Certificate:
    """The plan does not fit its documents."""
    raise PlanError(f"the plan {plan.name!r} flatters itself")


def broken(plan: Plan, *_: object) -> Certificate:
    """Has a bug."""
    raise ZeroDivisionError(f"a bug with {plan.name}")


def greedy(plan: Plan, *_: object) -> Certificate:
    """Wants 64 GiB."""
    taken = np.ones(2**36, dtype=np.uint8)
    return Certificate(plan=plan.id, outcome="verified", tensors=int(taken[-1]))


def dying(plan: Plan, *_: object) -> Certificate:
    """Ends as a fault in compiled code ends a process: without a word."""
    del plan
    os.abort()


def endless(plan: Plan, *_: object) -> Certificate:
    """Runs until it is killed; leaves its process id in the file that MARK names."""
    del plan
    Path(os.environ[MARK]).write_text(str(os.getpid()))
    while True:
        time.sleep(0.02)
