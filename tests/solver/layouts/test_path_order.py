"""The order of axes on a slot: every step of a parameter's paths changes the innermost ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from meshwright.schema import Mesh, MeshAxis, Setup
from meshwright_costmodel.calibrations import published_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.layouts.path_order import in_path_order
from meshwright_solver.layouts.redistribution import LayoutStep, Path, Placed
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.small_graphs import GraphMaker


def step(kind: str, axes: tuple[int, ...], before: list[int], after: list[int]) -> LayoutStep:
    without = (0,) * len(before)
    return LayoutStep(
        kind, axes, Placed(tuple(before), without), Placed(tuple(after), without), 0.0, 0.0
    )


def test_axes_that_stay_are_slower_than_those_that_a_step_moves() -> None:
    # one slot: 0 is on it, 1 replicated; axis 1 is scattered first, then axis 0
    path = (
        step("reduce_scatter", (1,), [2, 2], [2, 0]),
        step("slice", (0,), [1, 0], [0, 0]),
    )
    assert in_path_order((0, 0), [path], 1) == (1, 0)
    assert in_path_order((3, 0), [path], 1) == (3, 0)  # so already


def test_paths_that_contradict_each_other_leave_the_order() -> None:
    forth = (step("slice", (0,), [1, 0], [0, 0]),)
    back = (step("slice", (1,), [0, 1], [0, 0]),)
    assert in_path_order((5, 4), [forth, back], 1) == (5, 4)


def pairs(path: Path) -> set[tuple[int, int]]:
    found = set()
    for move in path:
        before, after = move.before.codes, move.after.codes
        for a, b in product(range(len(before)), repeat=2):
            stays = before[a] == after[a] in (0, 1)
            moves = before[b] != after[b] and before[a] in (before[b], after[b])
            if a != b and stays and moves:
                found.add((a, b))
    return found


@pytest.mark.parametrize(("name", "inner"), [("gb200-16x72", (9, 8)), ("h100-4x6", (3, 2))])
def test_every_step_of_every_state_is_possible(name: str, inner: tuple[int, int]) -> None:
    """A mesh whose middle axis divides no parameter: gathers over nodes use its ports too."""
    maker = GraphMaker("bfloat16", batch=2304)
    out = maker.op(
        "linear",
        [maker.input("x", "batch", 2048), maker.parameter("w", 8192, 2048)],
        ["batch", 8192],
    )
    cluster = preset(name)
    nodes = cluster.levels[0].size
    mesh = Mesh(
        axes=(
            MeshAxis(name="a", size=nodes, level="node"),
            MeshAxis(name="b", size=inner[0], level="gpu"),
            MeshAxis(name="c", size=inner[1], level="gpu"),
        )
    )
    problem = build_problem(
        maker.graph(out), cluster, Setup(microbatches=1), published_calibration()
    )
    models = Models(problem, find_values(problem), mesh)
    model = models.parameter(models.values.value_of["w"])
    everywhere = np.full(3, model.space.slots)
    changed = 0
    for state in model.states:
        order = model.order(state, everywhere)
        paths = model._paths(state[None], everywhere[None])
        wanted = set().union(*map(pairs, paths))
        assert all((order[slow], slow) < (order[fast], fast) for slow, fast in wanted), state
        changed += bool(wanted)
    assert changed
