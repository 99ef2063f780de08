"""Who moves what in a stage: its redistributions, by what they serve."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.schema import Redistribution, Stage
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.shardable_slots import Reader

Served = tuple[str, Reader | None]  # a value, and the reader, or None for all together


@dataclass(frozen=True, slots=True)
class Moves:
    """activations: from where a value rests, or is shared, to where it is read. gathers,
    reductions: of parameters and their gradients. spreads: by parameter."""

    activations: dict[Served, Redistribution] = field(default_factory=dict)
    gathers: dict[Served, Redistribution] = field(default_factory=dict)
    reductions: dict[Served, Redistribution] = field(default_factory=dict)
    spreads: dict[str, Redistribution] = field(default_factory=dict)

    @staticmethod
    def of(problem: Problem, stage: Stage) -> Moves:
        found = Moves()
        for moved in stage.redistributions:
            reader = None
            if moved.op is not None:
                reader = (problem.position_of[moved.op], moved.input or 0)
            served = moved.tensor, reader
            if moved.traffic == "activation":
                found.activations[served] = moved
            elif moved.traffic == "gradient":
                found.reductions[served] = moved
            elif moved.forward:
                found.gathers[served] = moved
            else:
                found.spreads[moved.tensor] = moved
        return found
