"""Parallelism roles of the axes of a plan's mesh, derived from the ops.

The role of an axis is the dim that it cuts in most of the arithmetic:

- data parallel: the batch;
- context parallel: the sequence;
- tensor parallel: other dims, such as columns, rows and heads;
- expert parallel: the experts of ops that have experts, and the batch of all other ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshwright.schema import Graph, Op, OpPlan, Stage, parse_notation
from meshwright.schema.notation import Term
from meshwright.schema.sizes import Size, symbols_in
from meshwright.schema.uniform_degrees import Role

_EXPERT_KINDS = frozenset({"expert_matmul", "moe_dispatch", "moe_combine", "grouped_matmul", "ffn"})
_EXPERTS = "e"  # the factor of experts in the rules of these kinds


@dataclass(frozen=True, slots=True)
class OpRoles:
    """A planned op, the role of an axis on each of its factors, and the factors of its inputs."""

    planned: OpPlan
    op: Op
    of_factor: Mapping[str, Role]
    inputs: tuple[frozenset[str], ...]

    @property
    def on(self) -> dict[str, Role]:
        """The roles of the axes in the op's strategy."""
        return {
            axis: self.of_factor.get(factor, "tp")
            for factor, axes in self.planned.strategy.items()
            for axis in axes
        }

    def axes_of_input(self, place: int) -> frozenset[str]:
        """The axes that cut an input in the layout that the op reads."""
        strategy = self.planned.strategy
        factors = self.inputs[place] if place < len(self.inputs) else frozenset()
        return frozenset(
            axis for factor, axes in strategy.items() if factor in factors for axis in axes
        )

    def has(self, role: Role) -> bool:
        """Whether any factor has the role."""
        return role in self.of_factor.values()


def op_roles(stage: Stage, graph: Graph) -> list[OpRoles]:
    """The roles of the stage's ops that are in the graph and have a rule."""
    ops = {op.name: op for op in graph.ops}
    sizes = {tensor.name: tensor.shape for tensor in graph.tensors}
    roles = []
    for planned in stage.ops:
        op = ops.get(planned.op)
        if op is None or planned.rule is None:
            continue
        ports = (*op.inputs, *op.outputs)
        terms = parse_notation(planned.rule).terms_of(len(ports))
        of_factor = _factor_roles(op, terms, [sizes[name] for name in ports])
        inputs = tuple(
            frozenset(
                str(factor) for products in term for product in products for factor in product
            )
            for term in terms[: len(op.inputs)]
        )
        roles.append(OpRoles(planned, op, of_factor, inputs))
    return roles


def factor_roles(op: Op, rule: str, graph: Graph) -> dict[str, Role]:
    """The role of an axis on each factor of an op's rule."""
    ports = (*op.inputs, *op.outputs)
    sizes = [graph.tensor(name).shape for name in ports]
    return _factor_roles(op, parse_notation(rule).terms_of(len(ports)), sizes)


def _factor_roles(
    op: Op, terms: Sequence[Term], sizes: Sequence[tuple[Size, ...]]
) -> dict[str, Role]:
    of_factor: dict[str, Role] = {}
    for shape, term in zip(sizes, terms, strict=False):
        for size, products in zip(shape, term, strict=False):
            dim_role: Role = "tp"
            if "batch" in symbols_in(size):
                dim_role = "dp"
            elif "seq" in symbols_in(size):
                dim_role = "cp"
            for product in products:
                for place, factor in enumerate(product):
                    role: Role = dim_role if place == 0 else "tp"
                    if op.kind in _EXPERT_KINDS and factor == _EXPERTS:
                        role = "ep"
                    if of_factor.get(factor, "tp") == "tp":
                        of_factor[factor] = role
    return of_factor


def axis_roles(stage: Stage, ops: list[OpRoles]) -> dict[str, Role | None]:
    """The role of each axis of more than one device; None for an axis that no op uses."""
    roles: dict[str, Role | None] = {}
    for axis in stage.mesh.axes:
        if axis.size == 1:
            continue
        weights: dict[Role, float] = {}
        of_experts: dict[Role, float] = {}
        for op in ops:
            role = op.on.get(axis.name)
            if role is not None:
                target = of_experts if op.has("ep") else weights
                target[role] = target.get(role, 0.0) + op.planned.compute_ns
        if _heaviest_role(of_experts) == "ep":
            roles[axis.name] = "ep"
        else:
            roles[axis.name] = _heaviest_role(weights or of_experts)
    return roles


def _heaviest_role(weights: Mapping[Role, float]) -> Role | None:
    return max(weights, key=lambda role: weights[role], default=None)
