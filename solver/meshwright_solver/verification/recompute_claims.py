"""Recompute claims: the recomputed ops of a stage, against the policy that the plan names.

The policies `selective`, `cheap` and `full` decide the recomputed ops of the blocks that the stage
recomputes. The policy `ops` may recompute any op: the price of memory decides which.
"""

from __future__ import annotations

from dataclasses import replace

from meshwright.schema import PlanError, Recomputed, Stage
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.values import find_values
from meshwright_solver.stage.recompute import remade
from meshwright_solver.stage.recompute.blocks import BlockNames, blocks


def check_recompute(
    problem: Problem, stage: Stage, where: str, names: BlockNames | None = None
) -> None:
    """Raise PlanError where the segments of a stage are not those of its policy.

    problem: of the stage alone. names: the blocks of the whole graph; None for the only stage.
    """
    stated = stage.recompute
    if stated is None:
        return
    done = RecomputedOps.of(stated)
    if stated.policy not in ("ops", "stated"):  # conformance checks stated ops
        done = _by_policy(problem, done, names)
    expected = done.document([op.op for op in stage.ops])
    if stated != expected:
        raise PlanError(
            f"the plan says {where}recompute {_difference(stated, expected)}. "
            "Plan the request again"
        )


def _by_policy(problem: Problem, done: RecomputedOps, names: BlockNames | None) -> RecomputedOps:
    """The ops that the policy recomputes in all blocks up to the last recomputed one."""
    plain = replace(problem, remade=NOTHING)
    values = find_values(plain)
    recomputed = [
        number
        for number, block in enumerate(blocks(plain, values, names))
        if any(plain.ops[position].name in done.segment_of for position in block)
    ]
    count = recomputed[-1] + 1 if recomputed else 0
    return remade(plain, values, done.policy, count, names)


def _difference(stated: Recomputed, expected: Recomputed | None) -> str:
    many = 0 if expected is None else len(expected.segments)
    if expected is None or len(stated.segments) != many:
        return f"segments: {len(stated.segments)}, its policy {stated.policy} has {many}"
    for number, (one, other) in enumerate(zip(stated.segments, expected.segments, strict=True)):
        for field in ("ops", "again"):
            if getattr(one, field) != getattr(other, field):
                return (
                    f"segments[{number}].{field} {', '.join(getattr(one, field))}, its policy "
                    f"{stated.policy} has {', '.join(getattr(other, field))}"
                )
    return f"policy {stated.policy}, its segments are of {expected.policy}"
