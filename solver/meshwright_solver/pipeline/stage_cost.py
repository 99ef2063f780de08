"""What a stage costs, pass by pass: from its part of a plan, by the rules of `evaluate`.

    forward     ops, their own collectives, redistributions of values, gathers of parameters
    inputs      the backward pass but for what makes gradients of parameters alone; what is
                recomputed; values and parameters that are gathered again
    weights     gradients of parameters, and their reductions in every microbatch
    step        once a step: reductions of what was summed up, update, spreading

Each takes as long as what runs in it one beside the other
(`meshwright_solver.evaluation.step_time.closed_form`). Of a backward pass that is not split,
weights are the work on them, inputs the rest. What a stage receives is none of it: transfers run
beside the passes (`meshwright_solver.pipeline.schedule_run`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshwright.schema import Cost, Passes, Stage
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.evaluate import CostTotals, cost_of, lengths_in_turn, memory_of
from meshwright_solver.evaluation.memory.peak import Moments
from meshwright_solver.evaluation.memory.stage_memory import stage_moments
from meshwright_solver.evaluation.step_time.closed_form import Lengths, lengths_of
from meshwright_solver.evaluation.step_time.stage_dag import AssignmentPart, course_of
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.pipeline.split_backward_memory import waiting_bytes
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.mesh_models import Models


@dataclass(frozen=True, slots=True)
class StageCost:
    """cost: of one step, without receiving and waiting. saved_bytes, waiting_bytes: of one
    microbatch, until its backward pass, and between the halves of a split one. moments: of one
    microbatch."""

    lengths: Lengths
    cost: Cost
    saved_bytes: float
    moments: Moments
    waiting_bytes: float = 0.0

    def of_copy(self, stage: Stage, copy: Stage) -> StageCost:
        """The same of a copy of the stage under other names."""
        names = {op.op: other.op for op, other in zip(stage.ops, copy.ops, strict=True)}
        return replace(self, moments=self.moments.renamed(names))


def stage_cost(problem: Problem, stage: Stage, *, split: bool) -> StageCost:
    """problem: of the stage alone. split: its schedule's backward passes. Raises PlanError where
    they do not fit."""
    models = Models.of_stage(problem, stage)
    assignment = assignment_of_stage(models, stage)
    part = AssignmentPart.whole(models, assignment)
    course = course_of(models, [part], models.problem.position_of)
    lengths = lengths_of(course, training=True, split=split)
    moments = stage_moments(models, assignment, part.ledger, split=split)
    totals = CostTotals.of(models.problem, [part])
    memory_bytes = memory_of(models.problem, totals, moments)
    cost = cost_of(models.problem, totals, lengths, memory_bytes)
    moved = cost.communication_ns
    between_ns = models.problem.microbatches * course.between_ns
    moved = {**moved, "activation": max(0.0, moved["activation"] - between_ns)}
    return StageCost(
        lengths,
        cost.model_copy(update={"communication_ns": moved}),
        cost.memory_bytes.activations / models.problem.in_flight,
        moments,
        waiting_bytes(models, assignment, part.ledger),
    )


def whole_passes(folded: FoldedPlan) -> Passes:
    """Of a plan that is not written for every layer; backward passes are not split."""
    return passes_of(lengths_in_turn(folded.models.problem, folded.course))


def split_passes(folded: FoldedPlan) -> Passes:
    """The same where they are."""
    return passes_of(lengths_of(folded.course, training=True, split=True))


def passes_of(lengths: Lengths) -> Passes:
    return Passes(
        forward_ns=lengths.forward,
        inputs_ns=lengths.inputs,
        weights_ns=lengths.weights,
        begin_ns=lengths.begin,
        step_ns=lengths.end,
    )
