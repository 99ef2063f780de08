"""The redistributions of a stage, indexed by value and reader."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.schema import Redistribution, Stage
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.shardable_slots import Reader

Served = tuple[str, Reader | None]  # a value, and one reader, or None for all its readers


@dataclass(frozen=True, slots=True)
class Moves:
    """The redistributions of a stage.

    activations: from the producer's or the shared layout to the reader's. gathers: of parameters.
    reductions: of their gradients. spreads: of updated parameters, once a step, by parameter.
    """

    activations: dict[Served, Redistribution] = field(default_factory=dict)
    gathers: dict[Served, Redistribution] = field(default_factory=dict)
    reductions: dict[Served, Redistribution] = field(default_factory=dict)
    spreads: dict[str, Redistribution] = field(default_factory=dict)

    @staticmethod
    def of(problem: Problem, stage: Stage) -> Moves:
        moves = Moves()
        for moved in stage.redistributions:
            reader = None
            if moved.op is not None:
                reader = (problem.position_of[moved.op], moved.input or 0)
            served = moved.tensor, reader
            if moved.traffic == "activation":
                moves.activations[served] = moved
            elif moved.traffic == "gradient":
                moves.reductions[served] = moved
            elif moved.forward:
                moves.gathers[served] = moved
            else:
                moves.spreads[moved.tensor] = moved
        return moves
