"""Verification: is a plan right? Execute it, scaled down, and compare with the unsharded run.

Every value at rest, its gradient and every parameter's gradient, put together from all devices, has
to equal the unsharded run's, both passes, within TOLERANCE of the largest element of the tensor.
The layouts, groups and steps executed are those of the plan document; sizes are scaled down
(`solver.execution.scale`), the structure is the plan's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from costmodel.calibrations import default_calibration
from meshwright.schema import (
    Calibration,
    Certificate,
    Graph,
    Layout,
    LayoutError,
    Mesh,
    Plan,
    PlanError,
    Setup,
    Topology,
)
from solver.evaluate import evaluate
from solver.execution.collectives import StepError
from solver.execution.executor import ShardedRun, run_sharded
from solver.execution.kernels import KERNELS
from solver.execution.scale import ScaleError, scale_down
from solver.execution.shards import Array, DisagreementError, Shards, unshard
from solver.execution.whole import Run, run_whole
from solver.problem import FLOATS, Problem, build_problem

Outcome = Literal["verified", "failed", "not verifiable"]

TOLERANCE = 1e-8  # chosen: float64 sums in another order, through a hundred layers
# chosen: what is zero but for rounding (the gradient of a key's bias) counts against the others
NEGLIGIBLE = 1e-6
ROUNDING = 1e-9


def verify_documents(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
    seed: int = 0,
) -> Certificate:
    """Judge a plan by its documents: its cost by `evaluate`, then its execution.

    Raises PlanError where the plan does not fit them, or says of itself another cost than it has.
    """
    problem = build_problem(
        graph, topology, setup, calibration or default_calibration(), plan.microbatches
    )
    cost = evaluate(problem, plan)
    if abs(cost.step_ns - plan.cost.step_ns) > ROUNDING * cost.step_ns:
        raise PlanError(
            f"the plan says a step takes {plan.cost.step_ns:.0f} ns, evaluate says "
            f"{cost.step_ns:.0f} ns"
        )
    return verify(problem, plan, seed=seed)


def verify(problem: Problem, plan: Plan, *, seed: int = 0) -> Certificate:
    """Execute a plan on a scaled-down copy of its graph and compare."""

    def certificate(outcome: Outcome, detail: str) -> Certificate:
        return Certificate(plan=plan.id, outcome=outcome, detail=detail, seed=seed)

    unknown = sorted({op.op.kind for op in problem.ops if op.op.kind not in KERNELS})
    if unknown:
        return certificate("not verifiable", f"no numpy kernel for {', '.join(unknown)}")
    if problem.training and problem.graph.loss is None:
        return certificate("not verifiable", "a training graph without a loss has no gradients")
    try:
        scaled = scale_down(problem.of_stage(plan.stages[0]), plan.stages[0])
    except ScaleError as why:
        return certificate("not verifiable", str(why))
    sources = random_sources(scaled.problem, seed)
    with np.errstate(all="ignore"):
        whole = run_whole(scaled.problem, sources)
    try:
        sharded = run_sharded(scaled.problem, scaled.stage, sources)
        worst = _compare(scaled.stage.mesh, whole, sharded)
    except (StepError, PlanError, LayoutError, DisagreementError, DifferenceError) as wrong:
        return certificate("failed", str(wrong))
    return Certificate(
        plan=plan.id,
        outcome="verified",
        tensors=len(sharded.values),
        gradients=len(sharded.gradients),
        worst_error=worst,
        seed=seed,
    )


def random_sources(problem: Problem, seed: int) -> dict[str, Array]:
    """Values for everything that no op makes; indices stay inside what they index."""
    generator = np.random.default_rng(seed)
    made = {port.tensor for op in problem.ops for port in op.outputs}
    bounds = _index_bounds(problem)
    sources: dict[str, Array] = {}
    for name, info in problem.tensors.items():
        if name in made:
            continue
        if info.tensor.dtype in FLOATS:
            sources[name] = generator.standard_normal(info.shape)
        elif info.tensor.dtype == "bool":
            sources[name] = generator.integers(0, 2, info.shape).astype(np.bool_)
        else:
            sources[name] = generator.integers(0, bounds.get(name, 2), info.shape)
    return sources


def _index_bounds(problem: Problem) -> Mapping[str, int]:
    """What integers of a source may reach: the rows that they look up, through what moves them."""
    bounds: dict[str, int] = {}
    for op in reversed(problem.ops):
        shapes = [problem.tensors[port.tensor].shape for port in op.inputs]
        if op.op.kind == "embedding":
            bounds[op.inputs[1].tensor] = min(
                shapes[0][0], bounds.get(op.inputs[1].tensor, shapes[0][0])
            )
        elif op.op.kind == "cross_entropy":
            bounds[op.inputs[1].tensor] = shapes[0][-1]
        else:
            passed = [bounds[port.tensor] for port in op.outputs if port.tensor in bounds]
            for port in op.inputs:
                if passed and problem.tensors[port.tensor].tensor.dtype not in FLOATS:
                    bounds[port.tensor] = min(*passed, bounds.get(port.tensor, passed[0]))
    return bounds


class DifferenceError(Exception):
    """What the devices hold is not what the unsharded run has."""


def _compare(mesh: Mesh, whole: Run, sharded: ShardedRun) -> float:
    """The worst error; DifferenceError beyond TOLERANCE, or for a gradient that is nowhere."""
    worst = 0.0
    for what, found, expected in (
        ("tensor", sharded.values, whole.values),
        ("gradient of", sharded.gradients, whole.gradients),
    ):
        floor = NEGLIGIBLE * max((_largest(array) for array in expected.values()), default=0.0)
        for root, (layout, shards) in found.items():
            error = _error(layout, shards, mesh, expected.get(root), floor)
            if error > TOLERANCE:
                raise DifferenceError(
                    f"{what} {root!r} in {layout} differs from the unsharded run by {error:.1e} "
                    "of its largest element"
                )
            worst = max(worst, error)
    for root in whole.gradients:
        if root in sharded.values and root not in sharded.gradients:
            raise DifferenceError(f"no device has a gradient of {root!r}")
    return worst


def _largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0


def _error(
    layout: Layout, shards: Shards, mesh: Mesh, expected: Array | None, floor: float
) -> float:
    found = unshard(shards, layout, mesh)
    if expected is None:
        return _largest(found)
    if found.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else 1.0
    difference = np.abs(found - expected)
    if not np.isfinite(difference).all():
        return float("inf")
    scale = max(_largest(expected), floor) or 1.0
    return float(difference.max(initial=0.0)) / scale
