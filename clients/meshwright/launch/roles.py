"""What the axes of a plan's mesh are for, as the work on them says.

An axis that lies on the batch of most of the arithmetic is data parallel, on the sequence context
parallel, on anything else (columns, rows, heads) tensor parallel; one that lies on the experts of
ops that have them, and on the batch of all others, is expert parallel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meshwright.schema import Graph, Op, OpPlan, Stage, parse_notation
from meshwright.schema.sizes import symbols_in
from meshwright.schema.uniform import Role

_EXPERT_KINDS = frozenset({"expert_matmul", "moe_dispatch", "moe_combine", "grouped_matmul", "ffn"})
_EXPERTS = "e"  # the factor of experts in the rules of these kinds


@dataclass(frozen=True, slots=True)
class OpRoles:
    """A planned op, by factor what an axis on it is for, and the factors of its inputs."""

    planned: OpPlan
    op: Op
    of_factor: Mapping[str, Role]
    inputs: tuple[frozenset[str], ...]

    @property
    def on(self) -> dict[str, Role]:
        """By axis that the op's strategy uses."""
        return {
            axis: self.of_factor.get(factor, "tp")
            for factor, axes in self.planned.strategy.items()
            for axis in axes
        }

    def axes_of_input(self, place: int) -> frozenset[str]:
        """The axes that cut an input as the op reads it."""
        strategy = self.planned.strategy
        own = self.inputs[place] if place < len(self.inputs) else frozenset()
        return frozenset(
            axis for factor, axes in strategy.items() if factor in own for axis in axes
        )

    def has(self, role: Role) -> bool:
        """Whether any factor is for the role."""
        return role in self.of_factor.values()


def op_roles(stage: Stage, graph: Graph) -> list[OpRoles]:
    """Of the stage's ops that are the graph's own and have a rule."""
    ops = {op.name: op for op in graph.ops}
    sizes = {tensor.name: tensor.shape for tensor in graph.tensors}
    found = []
    for planned in stage.ops:
        op = ops.get(planned.op)
        if op is None or planned.rule is None:
            continue
        ports = (*op.inputs, *op.outputs)
        of_factor: dict[str, Role] = {}
        terms = parse_notation(planned.rule).terms_of(len(ports))
        for name, term in zip(ports, terms, strict=False):
            for size, products in zip(sizes[name], term, strict=False):
                own: Role = "tp"
                if "batch" in symbols_in(size):
                    own = "dp"
                elif "seq" in symbols_in(size):
                    own = "cp"
                for product in products:
                    for place, factor in enumerate(product):
                        role: Role = own if place == 0 else "tp"
                        if op.kind in _EXPERT_KINDS and factor == _EXPERTS:
                            role = "ep"
                        if of_factor.get(factor, "tp") == "tp":
                            of_factor[factor] = role
        inputs = tuple(
            frozenset(
                str(factor) for products in term for product in products for factor in product
            )
            for term in terms[: len(op.inputs)]
        )
        found.append(OpRoles(planned, op, of_factor, inputs))
    return found


def axis_roles(stage: Stage, ops: list[OpRoles]) -> dict[str, Role | None]:
    """By axis of more than one device: what it is for; None where nothing lies on it."""
    found: dict[str, Role | None] = {}
    for axis in stage.mesh.axes:
        if axis.size == 1:
            continue
        weights: dict[Role, float] = {}
        of_experts: dict[Role, float] = {}
        for own in ops:
            role = own.on.get(axis.name)
            if role is not None:
                into = of_experts if own.has("ep") else weights
                into[role] = into.get(role, 0.0) + own.planned.compute_ns
        if _most(of_experts) == "ep":
            found[axis.name] = "ep"
        else:
            found[axis.name] = _most(weights or of_experts)
    return found


def _most(weights: Mapping[Role, float]) -> Role | None:
    return max(weights, key=lambda role: weights[role], default=None)
