"""Strategies of ops that a stated mesh allows, axis by axis.

    dp, ep   on the batch; ep on the experts of ops that have them
    cp       on the sequence, in attention on that of the queries; the search chooses between an
             all-gather and a ring of keys and values
    tp       never on tokens or on normalised parts; with sequence parallelism, ops other than
             products have it on the sequence where they have it on nothing else

Each axis cuts every op as many ways as it can. Memory-bound ops may leave tp idle: all of them
without sequence parallelism; with it those that do not make a batch of sequences of features, such
as the loss and position tables, as in frameworks. The search decides the rest: columns or rows,
which heads, which dims of a block.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from meshwright.schema import InvalidInput, Mesh
from meshwright.schema.degrees import Degrees
from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
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
    """Strategy filters by position of op, for all ops except views."""
    roles = roles_of(problem)
    axes = tuple(role_of(axis) for axis in mesh.axes)
    rules: dict[Hashable, _DegreeRule] = {}
    stated: dict[int, StrategyFilter] = {}
    for position in range(len(problem.ops)):
        if position not in views:
            rule = _DegreeRule(axes, *_axis_parts(problem, position, roles, degrees))
            stated[position] = rules.setdefault(rule.content, rule)
    return stated


def uncut_products(
    models: Models, degrees: Degrees, allowed: Mapping[int, StrategyFilter]
) -> list[str]:
    """Names of the products that tp cuts fewer ways than its degree.

    Raises InvalidInput for a degree that applies to no op, or that does not divide the batch, the
    sequence or the experts of a product.
    """
    used: dict[str, float] = {}
    uncut = []
    for position, rule in allowed.items():
        if isinstance(rule, _DegreeRule):
            name = models.problem.ops[position].name
            ways = rule.ways(models.ops.model(position), name)
            if rule.is_product and ways.get(TP, degrees.tp) < degrees.tp:
                uncut.append(name)
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
                f"{role} {degree} does not apply to this graph: {lacks} that it divides",
                pointer=f"/degrees/{role}",
            )
    return uncut


def _axis_parts(
    problem: Problem, position: int, roles: Roles, degrees: Degrees
) -> tuple[Mapping[str, Parts], Parts, bool, bool, bool]:
    """Parts for the axes of each role but tp; parts forbidden to tp; whether the op is a product;
    whether it is a lookup; whether tp may be idle."""
    op = problem.ops[position]
    batch, tokens = roles.batch[position], roles.tokens[position]
    experts = frozenset(j for j in roles.experts[position] if op.parts[j].shardable)
    is_lookup = op.known is not None and bool(op.known.sparse_inputs)
    is_product = (op.known is not None and op.known.op_class in PRODUCTS) or (
        is_lookup and (bool(batch) or _reads_input(problem, op))
    )
    closed = tokens | experts | roles.normalised[position]
    may_idle = not is_product
    if degrees.sequence_parallel and not is_product:
        sequence = roles.leading[position] or tokens - batch
        closed -= sequence
        may_idle = not _makes_features(op, batch, sequence)
    on = {DP: batch, CP: roles.leading[position], EP: experts or batch}
    return on, closed, is_product, is_lookup, may_idle


def _makes_features(op: OpInfo, batch: Parts, sequence: Parts) -> bool:
    """Whether the first output has a batch, the sequence and a further dim."""
    made = op.outputs[0].slot_of.keys() if op.outputs else frozenset()
    has_both = bool(batch & made) and bool(sequence) and sequence <= made
    return has_both and bool(made - batch - sequence)


def _reads_input(problem: Problem, op: OpInfo) -> bool:
    """Whether an op reads a graph input, as a lookup of tokens does; one of positions does not."""
    return any(problem.tensors[port.tensor].tensor.role == "input" for port in op.inputs)


@dataclass(frozen=True, slots=True)
class _DegreeRule:
    """A filter that keeps the strategies that the degrees allow to ops of equal roles.

    axes: the role of each mesh axis. on: the parts for the axes of each role but tp. closed: the
    parts forbidden to tp. may_idle: whether tp may leave the op whole.
    """

    axes: tuple[str, ...]
    on: Mapping[str, Parts]
    closed: Parts
    is_product: bool
    is_lookup: bool
    may_idle: bool
    _key_of: IdentityKeys = field(default_factory=IdentityKeys)
    _masks: dict[IdentityKey, BoolArray] = field(default_factory=dict)  # of all choices, by model

    @property
    def content(self) -> Hashable:
        on = tuple(sorted(self.on.items()))
        return self.axes, on, self.closed, self.is_product, self.is_lookup, self.may_idle

    def __call__(self, model: OpModel, choices: IntArray) -> BoolArray:
        if choices is not model.choices:
            return self._mask(model, choices)
        key = self._key_of(model)
        if key not in self._masks:
            self._masks[key] = self._mask(model, choices)
        return self._masks[key]

    def ways(self, model: OpModel, name: str) -> dict[str, float]:
        """Number of shards of an op by role.

        Raises InvalidInput for a product that dp, ep or cp cuts fewer ways than its degree.
        """
        choices = model.choices[self(model, model.choices)]
        ways_of = {
            role: float(self._ways(model, choices, role).max()) for role in dict.fromkeys(self.axes)
        }
        for role, ways in ways_of.items():
            degree = self._degree(model, role)
            if role != TP and ways < degree and self.on[role] and self.is_product:
                self._refuse(model, name, role, degree)
        if EP in ways_of and self.on[EP] == self.on[DP]:
            del ways_of[EP]  # data parallel
        return ways_of

    def _mask(self, model: OpModel, choices: IntArray) -> BoolArray:
        mask = self._fitting(model, choices)
        for role in (EP, DP, CP, *(() if self.may_idle else (TP,))):
            if role in self.axes:
                ways = self._ways(model, choices, role)
                mask &= ways == ways.max(where=mask, initial=1.0)
        return mask

    def _fitting(self, model: OpModel, choices: IntArray) -> BoolArray:
        mask = np.ones(len(choices), dtype=np.bool_)
        for a, role in enumerate(self.axes):
            may_have = np.zeros(len(model.parts_of_code), dtype=np.bool_)
            may_have[self._codes(model, role)] = True
            mask &= may_have[choices[:, a]]
        return mask

    def _codes(self, model: OpModel, role: str) -> list[int]:
        """Codes of `OpModel` that an axis of the role may have."""
        codes = range(len(model.parts_of_code))
        if role == TP:
            return [c for c in codes if self.closed.isdisjoint(model.parts_of_code[c])]
        parts = self.on[role]
        lying = [c for c in codes if parts & set(model.parts_of_code[c][:1])]
        if role != CP or self.is_lookup:  # devices with other tokens replicate the tables
            lying = [c for c in lying if len(model.parts_of_code[c]) == 1]
        return [model.idle, *lying]

    def _ways(self, model: OpModel, choices: IntArray, role: str) -> FloatArray:
        """(strategies,): number of shards over the axes of a role."""
        is_cut = np.array([bool(parts) for parts in model.parts_of_code])
        ways = np.ones(len(choices))
        for a, (axis, size) in enumerate(zip(self.axes, model.axis_sizes, strict=True)):
            if axis == role:
                ways *= np.where(is_cut[choices[:, a]], float(size), 1.0)
        return ways

    def _degree(self, model: OpModel, role: str) -> float:
        return float(
            np.prod(
                [s for s, axis in zip(model.axis_sizes, self.axes, strict=True) if axis == role]
            )
        )

    def _refuse(self, model: OpModel, name: str, role: str, degree: float) -> None:
        sizes = [model.sizes[part] for part in sorted(self.on[role])]
        what = {DP: "batch of a microbatch", CP: "sequence"}.get(role, "experts")
        if role == EP and self.on[EP] == self.on[DP]:
            what = "batch of a microbatch"
        hint = "fewer microbatches or a smaller dp" if "batch" in what else f"a smaller {role}"
        raise InvalidInput(
            f"op {name!r}: its {what} ({' × '.join(map(str, sizes))}) cannot be cut "
            f"{degree:.0f} ways over {role}. Use {hint}",
            pointer=f"/degrees/{role}",
        )
