"""What a stage costs, pass by pass: from its part of a plan, by the rules of `evaluate`.

    forward     ops, their own collectives, redistributions of values, gathers of parameters
    inputs      the backward pass but for what makes gradients of parameters alone; what is
                recomputed; values and parameters that are gathered again
    weights     gradients of parameters, and their reductions in every microbatch
    step        once a step: reductions of what was summed up, update, spreading

Communication counts with its exposed share. What a stage receives is none of it: transfers run
beside the passes (`solver.pipeline.passes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from meshwright.schema import Cost, MemoryUse, Passes, Stage
from solver.assignment import assignment_of_stage
from solver.cost_graph import FloatArray
from solver.evaluate import cost_of_all
from solver.folded_plan import FoldedPlan
from solver.ledger import ledger_of
from solver.lowering import Models
from solver.pipeline.schedule import Schedule
from solver.pipeline.waiting import waiting_bytes
from solver.problem import Problem


@dataclass(frozen=True, slots=True)
class StageCost:
    """cost: of one step, without receiving and waiting. saved_bytes, waiting_bytes: of one
    microbatch, until its backward pass, and between the halves of a split one."""

    passes: Passes
    cost: Cost
    saved_bytes: float
    waiting_bytes: float = 0.0

    def memory(self, schedule: Schedule, stage: int) -> MemoryUse:
        """What the stage holds in its place, whatever others on its rank do."""
        own = np.eye(schedule.stages)[stage]
        held = schedule.most_held(
            schedule.rank_of[stage], self.saved_bytes * own, self.waiting_bytes * own
        )
        return self.cost.memory_bytes.model_copy(update={"activations": round(held)})


def stage_cost(problem: Problem, stage: Stage) -> StageCost:
    """problem: of the stage alone. Raises PlanError where they do not fit."""
    models = Models.of_stage(problem, stage)
    assignment = assignment_of_stage(models, stage)
    ledger = ledger_of(models, assignment)
    found = _cost(models.problem, _work(models, stage, assignment.ops), cost_of_all(models, ledger))
    return replace(found, waiting_bytes=waiting_bytes(models, assignment, ledger))


def folded_cost(folded: FoldedPlan) -> StageCost:
    """The same of a plan that is not written for every layer; what waits is left out."""
    models = folded.models
    work = np.zeros(4)
    for portion, stage in zip(folded.portions, folded.stages, strict=True):
        ops = {position: portion.assignment.ops[position] for position in portion.share.ops}
        work += len(portion.copies) * _work(models, stage, ops)
    return _cost(models.problem, work, folded.cost)


def _work(models: Models, stage: Stage, strategies: Mapping[int, tuple[int, ...]]) -> FloatArray:
    """ns in one microbatch: forward, inputs, weights, and of receiving."""
    exposed = models.problem.calibration.exposed
    forward, inputs, weights = _compute(models, strategies).tolist()
    received = 0.0
    for op in stage.ops:
        for own in op.own_steps:
            if own.what in ("receive", "return"):
                received += own.ns
            else:
                if own.direction == "forward":
                    forward += own.ns * exposed.activation
                if own.direction == "backward" or own.again:
                    inputs += own.ns * exposed.activation
    for moved in stage.redistributions:
        there = sum(step.ns for step in moved.forward)
        back = sum(step.ns for step in moved.backward)
        share = getattr(exposed, moved.traffic)
        forward += there * share
        inputs += there * share if moved.again else 0.0
        if moved.traffic == "gradient":
            weights += back * share
        else:
            inputs += back * share
    return np.array([forward, inputs, weights, received])


def _cost(problem: Problem, work: FloatArray, cost: Cost) -> StageCost:
    forward, inputs, weights, received = work.tolist()
    count = problem.microbatches
    waited = count * received * problem.calibration.exposed.activation
    busy = cost.step_ns - waited
    passes = Passes(
        forward_ns=forward,
        inputs_ns=inputs,
        weights_ns=weights,
        step_ns=max(0.0, busy - count * (forward + inputs + weights)),
    )
    without = {
        "step_ns": busy,
        "communication_ns": _less(cost.communication_ns, count * received),
        "exposed_ns": _less(cost.exposed_ns, waited),
    }
    saved = cost.memory_bytes.activations / problem.in_flight
    return StageCost(passes, cost.model_copy(update=without), saved)


def _compute(models: Models, strategies: Mapping[int, tuple[int, ...]]) -> FloatArray:
    """ns of the ops' own work in one microbatch: forward, inputs, weights."""
    known: dict[tuple[int, tuple[int, ...]], FloatArray] = {}
    total = np.zeros(3)
    for position, codes in strategies.items():
        model = models.ops.model(position)
        key = id(model), codes
        if key not in known:
            forward, inputs, weights = models.passes_ns(model, np.array([codes]))
            again = forward if model.is_remade else 0.0
            known[key] = np.concatenate([forward, inputs + again, weights])
        total += known[key]
    return total


def _less(by_traffic: dict[str, float], ns: float) -> dict[str, float]:
    return {**by_traffic, "activation": max(0.0, by_traffic["activation"] - ns)}
