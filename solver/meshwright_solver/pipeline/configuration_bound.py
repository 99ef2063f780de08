"""A lower bound on every plan of the same cuts and schedule: fastest compute, free transfers.

The length of a schedule is monotone in its passes. Its run with the shortest passes of every stage
on any mesh, and without transfers, is therefore a lower bound on the step of every plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshwright.schema import Passes
from meshwright_solver.common.identity_keys import IdentityKey
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.pipeline.pipeline_cost import step_of_passes_ns
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_templates import OpSketches


def least_step_ns(staged: Staged, first: Sequence[int], max_axes: int) -> float:
    """The lower bound of a step. first: by stage, the first stage equal to it."""
    known = {number: least_passes(staged.problem(number), max_axes) for number in set(first)}
    passes = [known[number] for number in first]
    return step_of_passes_ns(staged.schedule, passes, np.zeros((2, len(passes) - 1)))


def least_passes(problem: Problem, max_axes: int) -> Passes:
    """The compute time of one microbatch by pass, each op in its fastest strategy."""
    values = find_values(problem)
    sketches = OpSketches(problem, values)
    least = np.full(3, np.inf)
    for mesh in meshes(problem.topology, max_axes):
        models = Models(problem, values, mesh, sketches)
        known: dict[IdentityKey, tuple[float, float, float]] = {}
        total = np.zeros(3)
        for position in range(len(problem.ops)):
            if position in values.views:
                continue
            model = models.ops.model(position)
            key = models.key_of(model)
            if key not in known:
                forward, inputs, weights = models.passes_ns(model, model.choices)
                known[key] = float(forward.min()), float(inputs.min()), float(weights.min())
            total += known[key]
        least = np.minimum(least, total)
    forward_ns, inputs_ns, weights_ns = least.tolist()
    return Passes(forward_ns=forward_ns, inputs_ns=inputs_ns, weights_ns=weights_ns, step_ns=0.0)
