"""Recursive programming: one mesh axis after the other, from the slowest link to the fastest.

On one axis an op has about as many strategies as its rule has factors. A whole graph, with every op
at its weight, is solved exactly in milliseconds (`meshwright_solver.stage.heuristics.axis_search`).
The decisions of an axis (`meshwright_solver.stage.heuristics.axis_decisions`) are final. The next
axis divides the remaining part on each group of devices
(`meshwright_solver.stage.heuristics.local_models`). Time is linear in axes and, folded, nearly
independent of the number of layers.

An axis may use as much memory as all axes inside it could divide by at most. If that limit binds,
the axes are solved again with less. The completion of the strategies to plans shows which are best
(`meshwright_solver.stage.engines.completion`).

Not exact: an axis does not know the possibilities of the axes inside it. MindSpore's recursive
programming (SAPP, double recursive) halves ops greedily in the same order, by relative sizes and
without a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Mesh
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.folding.fold import Folding
from meshwright_solver.lowering.lower import lower
from meshwright_solver.search.core.crossover import crossed, uncrossed
from meshwright_solver.search.elimination.memory_price import Cross
from meshwright_solver.stage.heuristics.axis_decisions import AxisDecisions
from meshwright_solver.stage.heuristics.axis_search import AxisSearch
from meshwright_solver.stage.heuristics.local_models import LocalModels, Outer
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter

Strategies = dict[int, tuple[int, ...]]

# chosen: the power of the inner axes' sizes by which an axis may expect them to divide its memory,
# and whether the layers at the ends may choose unlike those between if memory is short
TRIES: tuple[tuple[float, Cross], ...] = (
    (1.0, crossed),
    (1.0, uncrossed),
    *((hope, crossed) for hope in (0.95, 0.9, 0.85, 0.7, 0.5, 0.0)),
)


def recursive_programming(
    models: Models,
    folding: Folding,
    allowed: Mapping[int, StrategyFilter],
    memory_limit_bytes: float,
) -> Iterator[Strategies]:
    """Strategies of all ops by position, one code per axis; those that expect most memory first.

    models: of the folded graph on the mesh. allowed: the filters of some ops' strategies. The
    iterator ends where an axis has no choice within the filters and the memory. Raises OutOfTime at
    the models' deadline.
    """
    recursion = _Recursion(models, folding, allowed)
    sizes = [axis.size for axis in models.mesh.axes]
    inside = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
    earlier: list[Strategies] = []
    for hope, cross in TRIES:
        strategies = recursion.strategies(
            [memory_limit_bytes * size**hope for size in inside], cross
        )
        if strategies is not None and strategies not in earlier:
            earlier.append(strategies)
            yield strategies


class _Recursion:
    """The recursion over axes. An axis under equal outer decisions is solved once."""

    def __init__(
        self, models: Models, folding: Folding, allowed: Mapping[int, StrategyFilter]
    ) -> None:
        self.models = models
        self.folding = folding
        self.rows = {
            position: model.choices[keep(model, model.choices)]
            for position, keep in allowed.items()
            for model in [models.ops.model(position)]
        }
        self._known: dict[tuple[bytes, ...], AxisSearch] = {}

    @uncollected
    def strategies(self, limits: Sequence[float], cross: Cross) -> Strategies | None:
        """limits: bytes, of every axis on the part that the axes outside leave to it."""
        outer = Outer()
        codes: Strategies = {}
        decided: tuple[bytes, ...] = ()
        for k, (axis, limit) in enumerate(zip(self.models.mesh.axes, limits, strict=True)):
            self.models.deadline.check()
            search = self._known.get(decided)
            if search is None:
                local = LocalModels(self.models, Mesh(axes=(axis,)), outer)
                search = AxisSearch(self.folding, lower(local, self._allowed(k, codes), None))
                self._known[decided] = search
            choice = search.cheapest(limit, cross)
            if choice is None:
                return None
            decided = (*decided, choice.tobytes())
            decisions = AxisDecisions.of(search.lowered, choice, self.folding.alike)
            codes = {p: (*codes.get(p, ()), code) for p, code in decisions.code_of.items()}
            if k + 1 < len(limits):
                outer = decisions.inside(outer, axis.size)
        return self._valid(codes)

    def _allowed(self, k: int, codes: Strategies) -> dict[int, StrategyFilter]:
        """The codes on axis k that pins allow after those on the axes before it."""
        filters: dict[int, StrategyFilter] = {}
        for position, rows in self.rows.items():
            before = np.array(codes.get(position, ()), dtype=np.int64)
            filters[position] = _Keeps(np.unique(rows[(rows[:, :k] == before).all(axis=1), k]))
        return filters

    def _valid(self, codes: Strategies) -> Strategies:
        known: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        strategies: Strategies = {}
        for position, op_codes in codes.items():
            model = self.models.ops.model(position)
            key = (id(model), op_codes)
            if key not in known:
                known[key] = _valid(model, op_codes)
            strategies[position] = known[key]
        return strategies


def _valid(model: OpModel, codes: tuple[int, ...]) -> tuple[int, ...]:
    """A strategy of the whole mesh; where codes are incompatible, inner axes are idle."""
    strategy = list(codes)
    for k in reversed(range(-1, len(strategy))):
        if model.is_valid(tuple(strategy)):
            break
        strategy[k] = model.idle
    return tuple(strategy)


class _Keeps:
    """A filter of the strategies of one axis that have one of the codes."""

    def __init__(self, codes: IntArray) -> None:
        self.codes = codes

    def __call__(self, _: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        return np.isin(choices[:, 0], self.codes)
