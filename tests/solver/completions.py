"""What given strategies of all ops make of a problem: the rest by an exact search, as a plan."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Plan
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.pins import exactly
from meshwright_solver.evaluation.accounting.assignment import assignment_of_choice
from meshwright_solver.lowering.lower import lower
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter
from tests.solver.random_problems import plan_of_assignment


def completed_cost_ns(models: Models, strategies: Mapping[int, IntArray]) -> float:
    """The least cost with these strategies, without a memory limit."""
    return least_cost_ns(models, {p: exactly(row) for p, row in strategies.items()})


def least_cost_ns(models: Models, allowed: Mapping[int, StrategyFilter]) -> float:
    return dynamic_programming(lower(models, allowed, None).graph, SearchBudget()).cost_ns


def completed_plan(models: Models, strategies: Mapping[int, IntArray]) -> Plan:
    """A plan with these strategies."""
    lowered = lower(models, {p: exactly(row) for p, row in strategies.items()}, None)
    choice = dynamic_programming(lowered.graph, SearchBudget()).choice
    assert choice is not None
    return plan_of_assignment(models, assignment_of_choice(lowered, choice))


def axes_on(models: Models, name: str, row: IntArray) -> dict[str, str]:
    """Axis -> the parts of an op on which a strategy puts it; "" for none, "P" for partial sums."""
    position, op = next((k, op) for k, op in enumerate(models.problem.ops) if op.name == name)
    model = models.ops.model(position)
    found = {}
    for axis, code in zip(models.mesh.names, row.tolist(), strict=True):
        parts = "+".join(op.parts[part].name for part in model.parts_of_code[code])
        found[str(axis)] = parts or ("" if code == model.idle else "P")
    return found
