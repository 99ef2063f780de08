"""Which strategies of ops a stated mesh allows, axis by axis.

    dp, ep   on the batch; ep on the experts of ops that have them
    cp       on the sequence, of attention on that of the queries: whether keys and values are
             gathered or go round is open
    tp       on nothing that is tokens or normalised; with sequence parallelism ops that are no
             products may have it on the sequence

Every op is cut as many ways by each axis as it can be; only memory-bound ops may leave tp idle.
What is left is open to the search: columns or rows, which heads, which of a block's dims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meshwright.schema import InvalidInput, Mesh
from meshwright.schema.degrees import Degrees
from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.constraints.axis_roles import PRODUCTS, Roles, roles_of
from meshwright_solver.constraints.batch_dims import Parts
from meshwright_solver.constraints.degrees_mesh import CP, DP, EP, TP, role_of
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter


def stated_strategies(
    problem: Problem, degrees: Degrees, mesh: Mesh, views: frozenset[int]
) -> dict[int, StrategyFilter]:
    """Position of op -> the strategies that it may have; of ops that are no views."""
    roles = roles_of(problem)
    axes = tuple(role_of(axis) for axis in mesh.axes)
    return {
        position: _Stated(op, axes, *_wanted(problem, position, roles, degrees))
        for position, op in enumerate(problem.ops)
        if position not in views
    }


def uncut_products(
    models: Models, degrees: Degrees, allowed: Mapping[int, StrategyFilter]
) -> list[str]:
    """Names of the products that tp cannot cut as many ways as it should.

    Raises InvalidInput for a degree that means nothing for the graph, or that a product with a
    batch, a sequence or experts cannot be cut by.
    """
    used: dict[str, float] = {}
    uncut = []
    for position, own in allowed.items():
        if isinstance(own, _Stated):
            ways = own.ways(models.ops.model(position))
            if not own.may_idle and ways.get(TP, degrees.tp) < degrees.tp:
                uncut.append(own.op.name)
            for role, count in ways.items():
                used[role] = max(used.get(role, 1.0), count)
    for role, degree, lacks in (
        (DP, degrees.dp or 1, "no op has a batch"),
        (TP, degrees.tp, "no product has heads or hidden columns"),
        (CP, degrees.cp, "no op has a sequence, a dim whose size has the symbol 'seq',"),
        (EP, degrees.ep, "no op has experts"),
    ):
        if degree > 1 and used.get(role, 1.0) == 1 and (role != DP or degree > degrees.ep):
            raise InvalidInput(
                f"{role} {degree} means nothing for this graph: {lacks} that it divides",
                pointer=f"/degrees/{role}",
            )
    return uncut


def _wanted(
    problem: Problem, position: int, roles: Roles, degrees: Degrees
) -> tuple[Mapping[str, Parts], Parts, bool]:
    """By role, the parts that an axis lies on; those that tp keeps off; whether tp may be idle."""
    op = problem.ops[position]
    batch, tokens = roles.batch[position], roles.tokens[position]
    experts = frozenset(j for j in roles.experts[position] if op.parts[j].shardable)
    is_product = op.known is not None and (
        op.known.op_class in PRODUCTS
        or (bool(op.known.sparse_inputs) and (bool(batch) or _is_given(problem, op)))
    )
    closed = tokens | experts | roles.normalised[position]
    if degrees.sequence_parallel and not is_product:
        closed -= roles.leading[position] or tokens - batch
    on = {DP: batch, CP: roles.leading[position], EP: experts or batch}
    return on, closed, not is_product


def _is_given(problem: Problem, op: OpInfo) -> bool:
    """Whether an op reads what is given, as words of one sequence are; places of words are not."""
    return any(problem.tensors[port.tensor].tensor.role == "input" for port in op.inputs)


@dataclass(frozen=True, slots=True)
class _Stated:
    """Keeps what the degrees allow of one op's strategies.

    axes: the role of each mesh axis. on: by role but tp, the parts that its axes lie on. closed:
    those on which tp never lies.
    """

    op: OpInfo
    axes: tuple[str, ...]
    on: Mapping[str, Parts]
    closed: Parts
    may_idle: bool

    def __call__(self, model: OpModel, choices: IntArray) -> BoolArray:
        kept = self._fitting(model, choices)
        for role in (EP, DP, CP, *(() if self.may_idle else (TP,))):
            ways = self._ways(model, choices, role)
            kept &= ways == max(ways[kept], default=1.0)
        return kept

    def ways(self, model: OpModel) -> dict[str, float]:
        """By role, how many ways the op is cut; raises InvalidInput where a product with a batch is
        cut fewer ways by dp, ep or cp than there are devices for it."""
        kept = model.choices[self(model, model.choices)]
        found = {
            role: float(self._ways(model, kept, role).max()) for role in dict.fromkeys(self.axes)
        }
        for role, ways in found.items():
            asked = self._asked(model, role)
            if role != TP and ways < asked and self.on[role] and not self.may_idle:
                self._refuse(model, role, asked)
        if EP in found and self.on[EP] == self.on[DP]:
            del found[EP]  # data parallel
        return found

    def _fitting(self, model: OpModel, choices: IntArray) -> BoolArray:
        kept = np.ones(len(choices), dtype=np.bool_)
        for a, role in enumerate(self.axes):
            kept &= np.isin(choices[:, a], self._codes(model, role))
        return kept

    def _codes(self, model: OpModel, role: str) -> list[int]:
        """The codes that an axis of the role may have."""
        codes = range(len(model.parts_of_code))
        if role == TP:
            return [c for c in codes if self.closed.isdisjoint(model.parts_of_code[c])]
        parts = self.on[role]
        lying = [c for c in codes if parts & set(model.parts_of_code[c][:1])]
        is_lookup = self.op.known is not None and bool(self.op.known.sparse_inputs)
        if role != CP or is_lookup:  # tables lie whole on devices that have other tokens
            lying = [c for c in lying if len(model.parts_of_code[c]) == 1]
        return [model.idle, *lying]

    def _ways(self, model: OpModel, choices: IntArray, role: str) -> FloatArray:
        sizes = np.array(model.axis_sizes, dtype=np.float64)
        own = np.array([axis == role for axis in self.axes])
        busy = own & (model.lies_on([True] * model.parts, choices))
        ways: FloatArray = np.where(busy, sizes, 1.0).prod(axis=1)
        return ways

    def _asked(self, model: OpModel, role: str) -> float:
        return float(
            np.prod([s for s, own in zip(model.axis_sizes, self.axes, strict=True) if own == role])
        )

    def _refuse(self, model: OpModel, role: str, asked: float) -> None:
        sizes = [model.sizes[part] for part in sorted(self.on[role])]
        what = {DP: "batch of a microbatch", CP: "sequence"}.get(role, "experts")
        if role == EP and self.on[EP] == self.on[DP]:
            what = "batch of a microbatch"
        hint = "fewer microbatches or a smaller dp" if "batch" in what else f"a smaller {role}"
        raise InvalidInput(
            f"op {self.op.name!r}: its {what} ({' × '.join(map(str, sizes))}) cannot be cut "
            f"{asked:.0f} ways over {role}; {hint} would do",
            pointer=f"/degrees/{role}",
        )
