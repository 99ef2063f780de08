"""Lookup of a stage for its execution: layouts, steps, and the inputs and outputs of strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from meshwright.schema import Axis, Layout, LayoutPair, OwnStep, Redistribution, Stage, Step
from meshwright_solver.common.identity_keys import IdentityKey
from meshwright_solver.evaluation.accounting.assignment import Codes, pair_of
from meshwright_solver.evaluation.accounting.assignment_of_plan import strategies_of_stage
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import ProblemValue, find_values
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel
from meshwright_solver.verification.execution.buckets import Buckets, ExecutedStep
from meshwright_solver.verification.execution.collectives import StepError, run_step
from meshwright_solver.verification.execution.rooted_collectives import ROOTED, run_rooted
from meshwright_solver.verification.execution.shards import Array, Shards

Half = Literal["forward", "backward", "per_step"]
PlanReader = tuple[str | None, int | None]  # name of the op, its input
ALL_READERS: PlanReader = (None, None)
NO_OWNER: Mapping[Axis, int] = {}


class StageLookup:
    """A plan's stage by position of op and by root of value."""

    def __init__(self, problem: Problem, stage: Stage) -> None:
        self.problem = problem
        self.mesh = stage.mesh
        self.models = Models(problem, find_values(problem), stage.mesh)
        self.values = self.models.values
        self.strategies = strategies_of_stage(self.models, stage)
        self.rest: dict[str, LayoutPair] = {t.tensor: t.rest for t in stage.tensors}
        self.read: dict[str, LayoutPair] = {
            t.tensor: t.read for t in stage.tensors if t.read is not None
        }
        self.parameters = {p.tensor: p for p in stage.parameters}
        self.buckets = Buckets(stage)
        self.ran: dict[IdentityKey, ExecutedStep] = {}  # steps of buckets, by `Buckets.key_of`
        self._own_steps = {op.op: op.own_steps for op in stage.ops}
        self._moved: dict[tuple[str, PlanReader, str], list[Redistribution]] = {}
        for r in stage.redistributions:
            self._moved.setdefault((r.tensor, (r.op, r.input), r.traffic), []).append(r)

    def own_steps(self, position: int) -> tuple[OwnStep, ...]:
        """The collectives inside an op."""
        return self._own_steps[self.problem.ops[position].name]

    def steps(self, root: str, reader: PlanReader, traffic: str, half: Half) -> tuple[Step, ...]:
        """The plan's steps of a value (for one reader) in one half of its traffic."""
        moved = self._moved.get((root, reader, traffic), ())
        return tuple(step for r in moved for step in getattr(r, half))

    def run_steps(
        self,
        steps: Sequence[Step],
        shards: Shards,
        before: Layout,
        target: Layout,
        what: str,
        owner: Mapping[Axis, int] = NO_OWNER,
    ) -> Shards:
        """The shards after some steps; StepError where the steps do not end in the target layout.

        owner: the coordinates of the device that owns a dealt-out parameter, the root of `reduce`
        and `broadcast`.
        """
        for step in steps:
            if step.kind in ROOTED:
                moved = run_rooted(step, shards, before, owner, self.mesh)
            else:
                moved = run_step(step.kind, step.axes, shards, before, step.to, self.mesh)
            key = self.buckets.key_of(step)
            if key in self.buckets.inside:
                self.ran[key] = ExecutedStep(before, step.to, shards, moved)
            shards, before = moved, step.to
        if before != target:
            raise StepError(f"{what}: the steps end in {before}, needed is {target}")
        return shards

    def model(self, position: int) -> OpModel:
        return self.models.ops.model(position)

    def value(self, tensor: str) -> ProblemValue:
        return self.values.value_of[tensor]

    def required(self, position: int, k: int) -> LayoutPair:
        """The layouts in which an op's strategy needs an input."""
        row = np.array([self.strategies[position]])
        value = self.value(self.problem.ops[position].inputs[k].tensor)
        return self._pair(value, self.model(position).required(row, k)[0])

    def made(self, position: int, j: int) -> LayoutPair:
        """The layouts in which an op's strategy makes an output."""
        row = np.array([self.strategies[position]])
        value = self.value(self.problem.ops[position].outputs[j].tensor)
        return self._pair(value, self.model(position).made(row, j)[0])

    def _pair(self, value: ProblemValue, codes: Array) -> LayoutPair:
        key: Codes = tuple(int(code) for code in codes)
        return pair_of(self.models, value, key)
