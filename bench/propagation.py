"""`python -m bench.propagation [--draws N]`: sharding propagation against the exact optimum.

A line an example, without a memory limit: its cost over the optimum without seeds; the same with
random strategies of three random ops as seeds, which both keep (mean and worst of the draws); and
the seconds that it takes beside lowering.
"""

from __future__ import annotations

import argparse
import time
from statistics import mean, median

import numpy as np

from bench.timing import say
from examples.catalogue import EXAMPLES, Example
from meshwright.schema import Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.constraints.pins import exactly
from meshwright_solver.folding.fold import fold
from meshwright_solver.lowering.lower import lower
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.stage.heuristics.propagation.sharding_propagation import sharding_propagation
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter

TOPOLOGY = "h100-2x8"
SEEDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6, help="sets of random seeds")
    draws = parser.parse_args().draws
    say(f"{TOPOLOGY}, 2 axes, folded   ops  no seeds  {SEEDS} seeds: mean  worst       s")
    for own in EXAMPLES:
        found = _models(own)
        unseeded, _ = _ratio(found, {})
        rows = [_ratio(found, _random_seeds(found, draw)) for draw in range(draws)]
        ratios, seconds = zip(*rows, strict=True)
        say(
            f"{own.name:24} {len(found.problem.ops):6} {unseeded:9.4f} {mean(ratios):14.4f} "
            f"{max(ratios):6.4f} {median(seconds):7.3f}"
        )


def _models(own: Example) -> Models:
    topology = preset(TOPOLOGY)
    folded = fold(own.load(), {})
    built = build_problem(folded.graph, topology, Setup(), default_calibration(), 1)
    return Models(built, find_values(built), meshes(topology, 2)[0])


def _random_seeds(found: Models, draw: int) -> dict[int, StrategyFilter]:
    random = np.random.default_rng(draw)
    open_ops = [
        p
        for p in range(len(found.problem.ops))
        if p not in found.values.views and len(found.ops.model(p).choices) > 1
    ]
    chosen = random.choice(open_ops, SEEDS, replace=False).tolist()
    return {p: exactly(random.choice(found.ops.model(p).choices)) for p in chosen}


def _ratio(found: Models, seeds: dict[int, StrategyFilter]) -> tuple[float, float]:
    """The cost of propagation over that of the exact search, and its seconds."""
    best = dynamic_programming(lower(found, seeds, None).graph, SearchBudget()).cost_ns
    lower(found, {}, None)  # what is shared is made once, by whoever comes first
    started = time.process_time()
    answer = sharding_propagation(found, seeds)
    return answer.cost_ns / best, time.process_time() - started


if __name__ == "__main__":
    main()
