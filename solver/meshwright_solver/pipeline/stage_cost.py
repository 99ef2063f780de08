"""The cost of a stage by pass: from its part of a plan, by the rules of `evaluate`.

    forward     ops, their own collectives, redistributions of values, gathers of parameters
    inputs      the backward pass without weight gradients; recomputation; repeated gathers of
                values and parameters
    weights     gradients of parameters, and their reductions in every microbatch
    step        once a step: reductions of accumulated gradients, update, all-gather of parameters

The time of a pass counts the overlap of its compute and communication
(`meshwright_solver.evaluation.step_time.closed_form`). In a backward pass that is not split,
weights are the work on weight gradients, inputs the rest. Transfers between stages are not
included: they overlap with the passes (`meshwright_solver.pipeline.schedule_run`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshwright.schema import Cost, Passes, Stage
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.evaluate import CostTotals, cost_of, lengths_in_turn, memory_of
from meshwright_solver.evaluation.memory.peak import Moments
from meshwright_solver.evaluation.memory.stage_memory import stage_moments
from meshwright_solver.evaluation.step_time.closed_form import Lengths, lengths_of
from meshwright_solver.evaluation.step_time.stage_dag import AssignmentPart, dag_of
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.pipeline.split_backward_memory import waiting_bytes
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.mesh_models import Models


@dataclass(frozen=True, slots=True)
class StageCost:
    """The cost of a stage alone.

    cost: of one step, without receives and waits. saved_bytes: of one microbatch until its backward
    pass. waiting_bytes: of one microbatch between the halves of a split backward pass. moments: of
    one microbatch.
    """

    lengths: Lengths
    cost: Cost
    saved_bytes: float
    moments: Moments
    waiting_bytes: float = 0.0

    def of_copy(self, stage: Stage, copy: Stage) -> StageCost:
        """The cost of a copy of the stage under other names."""
        names = {op.op: other.op for op, other in zip(stage.ops, copy.ops, strict=True)}
        return replace(self, moments=self.moments.renamed(names))


def stage_cost(problem: Problem, stage: Stage, *, split: bool) -> StageCost:
    """The cost of a stage. Raises PlanError if stage and problem do not fit.

    problem: of the stage alone. split: whether the schedule splits backward passes.
    """
    models = Models.of_stage(problem, stage)
    assignment = assignment_of_stage(models, stage)
    part = AssignmentPart.whole(models, assignment)
    dag = dag_of(models, [part], models.problem.position_of)
    lengths = lengths_of(dag, training=True, split=split)
    moments = stage_moments(models, assignment, part.ledger, split=split)
    totals = CostTotals.of(models.problem, [part])
    memory_bytes = memory_of(models.problem, totals, moments)
    cost = cost_of(models.problem, totals, lengths, memory_bytes)
    moved = cost.communication_ns
    between_ns = models.problem.microbatches * dag.between_ns
    moved = {**moved, "activation": max(0.0, moved["activation"] - between_ns)}
    return StageCost(
        lengths,
        cost.model_copy(update={"communication_ns": moved}),
        cost.memory_bytes.activations / models.problem.in_flight,
        moments,
        waiting_bytes(models, assignment, part.ledger),
    )


def whole_passes(folded: FoldedPlan) -> Passes:
    """The passes of a folded plan without split backward passes."""
    return passes_of(lengths_in_turn(folded.models.problem, folded.dag))


def split_passes(folded: FoldedPlan) -> Passes:
    """The passes of a folded plan with split backward passes."""
    return passes_of(lengths_of(folded.dag, training=True, split=True))


def passes_of(lengths: Lengths) -> Passes:
    return Passes(
        forward_ns=lengths.forward,
        inputs_ns=lengths.inputs,
        weights_ns=lengths.weights,
        begin_ns=lengths.begin,
        step_ns=lengths.end,
    )
