"""Ops of a folded graph that have to have one strategy."""

from __future__ import annotations

from solver.folding import MIDDLE, Folding
from solver.problem import Problem


def tied_ops(folding: Folding, problem: Problem) -> list[tuple[int, ...]]:
    """Positions of equal ops in the middle copy of a run and in the kept copies beside it.

    The middle copy stands for all that were left out, which have these as neighbours
    (`solver.unfolding`). problem: of the folded graph.
    """
    position = {op.name: k for k, op in enumerate(problem.ops)}
    found = []
    for run in folding.runs:
        copies = [run.ops[run.number(MIDDLE + step)] for step in (-1, 0, 1)]
        found += [tuple(position[name] for name in names) for names in zip(*copies, strict=True)]
    return found
