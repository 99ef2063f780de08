"""The cheapest choice in which every op is cut as MindSpore says.

What its searches leave open is completed exactly: which axes of the mesh carry a cut, how tensors
rest and are read, how parameters, gradients and optimizer state are kept. Without any cuts it is
our own exact search, on the same meshes and with the same limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf

import numpy as np
from numpy.typing import NDArray

from bench.mindspore_strategies import Cuts, Recorded, Ways, by_level, ways_of
from meshwright.schema import ConversionError, Cost, Graph, InvalidInput, Mesh, Setup, Topology
from meshwright_costmodel.calibrations import default_calibration
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.constraints.meshes import MAX_AXES, meshes
from meshwright_solver.folding.fold import Folding, foldings
from meshwright_solver.folding.folded_plan import FoldedPlans
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.folding.unroll import NotAlikeError
from meshwright_solver.lowering.lower import lower
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.values import Values, find_values
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter

AXES = 3  # as many as a request has by default; more where a case of MindSpore's needs them


class Placement(Enum):
    """Which devices hold what part: as MindSpore numbers them, or as is best for it."""

    RANKS = "ranks"
    BEST = "best"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A case on a topology. cuts: of the ops that can be cut so.

    axes: of the meshes searched, on one of which at least all of them can be done at once, where
    MindSpore's own ranks say or, if need be, elsewhere. dropped: what of its answer had to be left
    out, in words.
    """

    graph: Graph
    topology: Topology
    cuts: Mapping[str, Cuts]
    axes: int
    dropped: tuple[str, ...]


def fixed(case: Recorded, topology: Topology) -> Fixed:
    """A case of MindSpore's; ConversionError where no mesh can keep all of its cuts together."""
    graph = case.graph()
    problem = _problem(graph, topology, 1)
    cuts = case.cuts()
    dropped = [f"there is no op {name!r}" for name in cuts if name not in problem.op_by_name]
    values = find_values(problem)
    finest = [Models(problem, values, mesh) for mesh in meshes(topology, MAX_AXES)]
    known: dict[tuple[int, Cuts], bool] = {}
    for position, op in enumerate(problem.ops):
        own = cuts.get(op.name)
        if own is None or position in values.views:
            continue
        key = (id(finest[0].ops.model(position)), own)
        if key not in known:
            known[key] = any(_can(found, position, own, Placement.BEST) for found in finest)
        if not known[key]:
            dropped.append(f"op {op.name!r}: {own} is no strategy of {op.notation!r}")
            del cuts[op.name]
    for placement in Placement:
        for axes in range(AXES, MAX_AXES + 1):
            for mesh in meshes(topology, axes):
                if _allowed(problem, values, mesh, cuts, placement) is not None:
                    return Fixed(graph, topology, cuts, axes, tuple(dropped))
    raise ConversionError(f"{case.name}: no mesh of {MAX_AXES} axes keeps all cuts at once")


def complete(
    given: Fixed,
    cuts: Mapping[str, Cuts],
    *,
    placement: Placement = Placement.BEST,
    microbatches: int = 1,
    memory_limit_bytes: float | None = None,
) -> Cost | None:
    """What the judge says of the cheapest choice with these cuts; None where there is none.

    The limit is on what a device holds beside its reserve.
    """
    for folding in foldings(given.graph, cuts):
        try:
            problem = _problem(folding.graph, given.topology, microbatches)
            return _searched(given, problem, folding, cuts, placement, memory_limit_bytes)
        except NotAlikeError:
            continue
        except InvalidInput:
            return None  # the graph, or a cut of it, cannot be run at so small a batch
    return None


def _searched(
    given: Fixed,
    problem: Problem,
    folding: Folding,
    cuts: Mapping[str, Cuts],
    placement: Placement,
    memory_limit_bytes: float | None,
) -> Cost | None:
    values = find_values(problem)
    best: Cost | None = None
    for mesh in meshes(given.topology, given.axes):
        allowed = _allowed(problem, values, mesh, cuts, placement)
        if allowed is None:
            continue
        models = Models(problem, values, mesh)
        unfolding = Unfolding(folding, lower(models, allowed, memory_limit_bytes))
        budget = SearchBudget(cutoff_ns=best.objective_ns if best else inf)
        search = dynamic_programming(unfolding.graph, budget)
        if search.choice is None:
            continue
        found = MeshOutcome(search, models, unfolding=unfolding)
        cost = FoldedPlans().of(found).cost
        if best is None or cost.objective_ns < best.objective_ns:
            best = cost
    return best


def _problem(graph: Graph, topology: Topology, microbatches: int) -> Problem:
    return build_problem(graph, topology, Setup(), default_calibration(), microbatches)


def _allowed(
    problem: Problem, values: Values, mesh: Mesh, cuts: Mapping[str, Cuts], placement: Placement
) -> dict[int, StrategyFilter] | None:
    """What every op with cuts may do on a mesh; None where one of them can do nothing."""
    models = Models(problem, values, mesh)
    found: dict[int, StrategyFilter] = {}
    known: dict[tuple[int, Cuts], bool] = {}
    for position, op in enumerate(problem.ops):
        own = cuts.get(op.name)
        if own is None or position in values.views:
            continue
        key = (id(models.ops.model(position)), own)
        if key not in known:
            known[key] = _can(models, position, own, placement)
        if not known[key]:
            return None
        found[position] = _kept(op, ways_of(problem, op, own), placement)
    return found


def _can(models: Models, position: int, cuts: Cuts, placement: Placement) -> bool:
    model, op = models.ops.model(position), models.problem.ops[position]
    try:
        keep = _kept(op, ways_of(models.problem, op, cuts), placement)
        return bool(keep(model, model.choices).any())
    except ConversionError:
        return False


def _kept(op: OpInfo, ways: Ways, placement: Placement) -> StrategyFilter:
    """Strategies that cut every part into its ways; what may follow a part is left to the search.

    Partial sums pass through no op: MindSpore reduces them at once.
    """

    def keep(model: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        codes = model.leader_of_code[choices]
        found = np.asarray((codes <= model.idle).all(axis=1), dtype=np.bool_)
        levels = np.array(model.axis_levels)
        sizes = np.array(model.axis_sizes, dtype=np.float64)
        if placement is Placement.BEST:
            return found & _are(codes, sizes, ways, model.parts)
        own = sorted(set(model.axis_levels))
        counts = [int(sizes[levels == level].prod()) for level in own]
        for level, wanted in zip(own, by_level(op, ways, counts), strict=True):
            found &= _are(codes[:, levels == level], sizes[levels == level], wanted, model.parts)
        return found

    return keep


def _are(codes: IntArray, sizes: FloatArray, ways: Ways, parts: int) -> NDArray[np.bool_]:
    """Whether the axes on every part make up its ways."""
    found = np.ones(len(codes), dtype=np.bool_)
    for part in range(parts):
        cut = np.where(codes == part, sizes, 1.0).prod(axis=1)
        found &= cut == ways.get(part, 1)
    return found
