"""The inputs of a stage's sections: its ops, times, values and redistributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright.schema import OpPlan, OwnStep, Stage
from meshwright_solver.common.identity_keys import IdentityKey
from meshwright_solver.evaluation.accounting.assignment import Assignment
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.accounting.ledger import Ledger, ledger_of
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.problem.weight_casts import running_order
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.simulation.collectives import CollectiveTasks
from meshwright_solver.simulation.redistributions import Moves
from meshwright_solver.simulation.tasks import SectionKind
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel

BETWEEN_STAGES = ("receive", "return")
BEFORE_FORWARD = ("halo", "indices")
BEFORE_BACKWARD = ("rows",)
BESIDE = ("ring",)


@dataclass(frozen=True)
class StageParts:
    """The inputs of a stage's sections. The problem of `models` is that of the stage alone.

    sends: by tensor for the next stage, its transfer time and that of its gradient, ns. receives:
    the same of tensors from the previous stage.
    """

    models: Models
    stage: Stage
    sends: dict[str, tuple[float, float]]
    receives: dict[str, tuple[float, float]]

    @staticmethod
    def of(
        problem: Problem,
        stage: Stage,
        sends: dict[str, tuple[float, float]],
        receives: dict[str, tuple[float, float]],
    ) -> StageParts:
        """Raises PlanError where the stage does not fit the problem."""
        return StageParts(Models.of_stage(problem, stage), stage, sends, receives)

    @cached_property
    def assignment(self) -> Assignment:
        return assignment_of_stage(self.models, self.stage)

    @cached_property
    def ledger(self) -> Ledger:
        return ledger_of(self.models, self.assignment)

    @cached_property
    def moves(self) -> Moves:
        return Moves.of(self.models.problem, self.stage)

    @cached_property
    def collectives(self) -> CollectiveTasks:
        return CollectiveTasks(self.models)

    @cached_property
    def plan_of(self) -> dict[int, OpPlan]:
        place = self.models.problem.position_of
        return {place[op.op]: op for op in self.stage.ops}

    @cached_property
    def order(self) -> list[int]:
        """Positions of the ops in the order in which they run."""
        places = np.array(sorted(self.assignment.ops), dtype=np.int64)
        is_cast = np.isin(places, [*self.models.values.weight_casts])
        if not is_cast.any():
            return [*map(int, places)]
        first = np.full(len(places), len(places), dtype=np.int64)
        for value in self.models.values.values:
            if value.producer is not None and value.producer[0] in self.models.values.weight_casts:
                readers = [position for position, _ in value.readers]
                place, *ranks = np.searchsorted(places, [value.producer[0], *readers]).tolist()
                first[place] = min([int(first[place]), *ranks])
        return [*map(int, places[running_order(is_cast, first)])]

    @cached_property
    def passes_ns(self) -> dict[int, tuple[float, float, float]]:
        """By position: an op's compute time in one microbatch, ns: forward, input and weight
        gradients."""
        known: dict[tuple[IdentityKey, tuple[int, ...]], tuple[float, float, float]] = {}
        passes_ns = {}
        for position, codes in self.assignment.ops.items():
            model = self.model(position)
            key = self.models.key_of(model), codes
            if key not in known:
                forward, inputs, weights = self.models.passes_ns(model, np.array([codes]))
                known[key] = float(forward[0]), float(inputs[0]), float(weights[0])
            passes_ns[position] = known[key]
        return passes_ns

    def model(self, position: int) -> OpModel:
        return self.models.ops.model(position)

    def name(self, position: int) -> str:
        return self.models.problem.ops[position].name

    def is_receive(self, position: int) -> bool:
        return self.models.problem.ops[position].op.kind == RECEIVE

    def values_read(self, position: int) -> list[ProblemValue]:
        of = self.models.values.value_of
        return [of[port.tensor] for port in self.models.problem.ops[position].inputs]

    def values_made(self, position: int) -> list[ProblemValue]:
        of = self.models.values.value_of
        return [of[port.tensor] for port in self.models.problem.ops[position].outputs]

    def own_steps(
        self, position: int, direction: str, before: Sequence[str]
    ) -> tuple[list[OwnStep], list[OwnStep], list[OwnStep]]:
        """Collectives of an op itself: before its compute task, beside it and after it."""
        steps = [
            step
            for step in self.plan_of[position].own_steps
            if step.direction == direction and step.what not in BETWEEN_STAGES
        ]
        first = [step for step in steps if step.what in before]
        beside = [step for step in steps if step.what in BESIDE]
        return first, beside, [step for step in steps if step not in first and step not in beside]

    def backward_half(self, position: int, value: ProblemValue) -> SectionKind:
        """The half of an op's backward pass, I or W, that needs a value that the op reads.

        In a product with a parameter, the input's gradient needs the parameter and the parameter's
        gradient needs the input.
        """
        share = self.model(position).weights_share
        if share == 1 or (share > 0 and not value.is_parameter):
            return SectionKind.W
        return SectionKind.I
