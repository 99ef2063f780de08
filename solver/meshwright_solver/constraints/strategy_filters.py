"""Strategy filters of a request's constraints, beyond pins.

    fully_use_devices   all axes are in use, or none is
    slice_alignment     matrix products: shards of the last dim are multiples of it
    group dims          inside a region of the program, the devices of its group
    all-to-alls         none inside an op, if the setup forbids them
    module              ops outside of it are pinned or data parallel
    elementwise_follow  edges, not strategies: no redistribution before an element-wise op
    degrees             of a stated strategy (solver/meshwright_solver/planning/degrees)

A pin overrides all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meshwright.schema import Constraints, Mesh, Pin, Request, RequestError
from meshwright_solver.common.arrays import BoolArray, IntArray
from meshwright_solver.common.name_globs import Names, alike
from meshwright_solver.constraints.batch_dims import batch_parts, data_parallel
from meshwright_solver.constraints.degrees_filter import stated_strategies
from meshwright_solver.constraints.elementwise_followers import followers
from meshwright_solver.constraints.group_dims import group_rules
from meshwright_solver.constraints.pin_filters import pin_filters
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter


@dataclass(frozen=True, slots=True)
class Filters:
    """Strategy filters by position of op: of its pin, or of the constraints.

    followers: index of the input without a redistribution, by position (`Models.followers`).
    """

    pinned: dict[int, StrategyFilter]
    allowed: dict[int, StrategyRules]
    followers: dict[int, int]

    @property
    def all(self) -> dict[int, StrategyFilter]:
        return {**self.allowed, **self.pinned}


def filters(
    problem: Problem, request: Request, pins: Mapping[int, Pin], values: Values, mesh: Mesh
) -> Filters:
    """The filters of pins (by position of op) and constraints on a mesh.

    Raises RequestError if the request's `module` matches no op.
    """
    views = values.views
    outside = outside_of(problem, request.module, views)
    batch = batch_parts(problem) if outside else ()
    degrees = request.degrees
    stated = stated_strategies(problem, degrees, mesh, views) if degrees is not None else {}
    groups = group_rules(problem, values)
    allowed: dict[int, StrategyRules] = {}
    for position in range(len(problem.ops)):
        if position in views or position in pins:
            continue
        if position in outside:
            allowed[position] = StrategyRules((("module", data_parallel(batch[position])),))
            continue
        rules = _rules(problem, position, request.constraints)
        if position in groups:
            rules = (*rules, ("graph", groups[position]))
        if position in stated:
            rules = (*rules, ("degrees", stated[position]))
        if rules:
            allowed[position] = StrategyRules(rules)
    follow = request.constraints.elementwise_follow
    return Filters(
        pin_filters(problem, pins, values=values, mesh=mesh),
        allowed,
        followers(problem, values, {*pins, *outside}) if follow else {},
    )


def outside_of(problem: Problem, module: str | None, views: frozenset[int]) -> frozenset[int]:
    """Positions of the ops that a request for a submodule does not search.

    Raises RequestError if the module's glob matches no op.
    """
    if module is None:
        return frozenset()
    planned = [position for position in range(len(problem.ops)) if position not in views]
    names = Names([problem.ops[position].name for position in planned])
    modules = Names([problem.ops[position].op.module for position in planned])
    inside = {planned[k] for searched in (names, modules) for k in searched.matching(module)}
    if not inside:
        known = [problem.ops[position].op.module for position in planned]
        raise RequestError(
            f"module {module!r} matches no op; modules are named like {alike(module, known)}",
            pointer="/module",
        )
    return frozenset(planned) - inside


@dataclass(frozen=True, slots=True)
class StrategyRules:
    """A filter that keeps the strategies that pass every rule.

    rules: pairs of the request field that sets the rule, and the rule.
    """

    rules: tuple[tuple[str, StrategyFilter], ...]

    def __call__(self, model: OpModel, choices: IntArray) -> BoolArray:
        mask = np.ones(len(choices), dtype=np.bool_)
        for _, rule in self.rules:
            mask &= rule(model, choices)
        return mask

    def first_broken(self, model: OpModel, row: BoolArray) -> str:
        """The request field of the first rule that no strategy in these rows passes."""
        return next(
            field for field, rule in self.rules if not (rule(model, model.choices) & row).any()
        )


def _rules(
    problem: Problem, position: int, constraints: Constraints
) -> tuple[tuple[str, StrategyFilter], ...]:
    op = problem.ops[position]
    rules: list[tuple[str, StrategyFilter]] = []
    if constraints.fully_use_devices:
        rules.append(("constraints.fully_use_devices", uses_all_or_none))
    if constraints.slice_alignment > 1 and op.known is not None and op.known.op_class == "matmul":
        aligned = _AlignmentRule(_last_dims(problem, op), constraints.slice_alignment)
        rules.append(("constraints.slice_alignment", aligned))
    if not problem.setup.allow_all_to_all and op.known is not None and op.known.sparse_inputs:
        rules.append(("setup.allow_all_to_all", makes_no_all_to_all))
    return tuple(rules)


def uses_all_or_none(model: OpModel, choices: IntArray) -> BoolArray:
    """A filter: all axes are in use (on a part, or passing partial sums), or none is."""
    counts = np.array(model.axis_sizes) > 1
    idle = choices[:, counts] == model.idle
    count = idle.sum(axis=1)
    mask: BoolArray = np.isin(count, (0, idle.shape[1]))
    return mask


def makes_no_all_to_all(model: OpModel, choices: IntArray) -> BoolArray:
    """A filter: no axis lies both on the rows of a table and on the indices that select them."""
    first = len(model.parts_of_code) - len(model.followers)
    mask: BoolArray = np.asarray((choices < first).all(axis=1))
    return mask


@dataclass(frozen=True, slots=True)
class _AlignmentRule:
    """A filter that keeps strategies with aligned last dims: whole, or multiples of `elements`.

    last_dims: length and parts of the last dim of every input and output.
    """

    last_dims: tuple[tuple[int, frozenset[int]], ...]
    elements: int

    def __call__(self, model: OpModel, choices: IntArray) -> BoolArray:
        mask = np.ones(len(choices), dtype=np.bool_)
        sizes = np.array(model.axis_sizes)
        for length, parts in self.last_dims:
            on = model.lies_on([part in parts for part in range(model.parts)], choices)
            ways = np.where(on, sizes, 1).prod(axis=1)
            chunk = -(-length // ways)
            mask &= (ways == 1) | (chunk % self.elements == 0)
        return mask


def _last_dims(problem: Problem, op: OpInfo) -> tuple[tuple[int, frozenset[int]], ...]:
    last_dims = []
    for port in (*op.inputs, *op.outputs):
        info = problem.tensors[port.tensor]
        last = len(info.shape) - 1
        parts = frozenset(part for part, k in port.slot_of.items() if info.slots[k].dim == last)
        if parts:
            last_dims.append((info.shape[last], parts))
    return tuple(last_dims)
