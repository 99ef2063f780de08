"""Group dims: dims of a region of a user's program that the ranks of a group share.

Capture writes the program of one rank with a dim for the ranks of its group. An op `identity` with
the attribute `group` states where such a dim begins (dim 0 of its output) and where it ends. In
between, every op has the dim on as many devices as the group has ranks; all else is searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from meshwright.schema import Mesh, RequestError
from meshwright_solver.common.arrays import BoolArray, IntArray
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values
from meshwright_solver.strategies.op_model import OpModel


@dataclass(frozen=True, slots=True)
class GroupRule:
    """A filter that keeps the strategies with a group dim on as many devices as it has ranks."""

    parts: frozenset[int]
    size: int

    def __call__(self, model: OpModel, choices: IntArray) -> BoolArray:
        sizes = np.array(model.axis_sizes)
        on = model.lies_on([part in self.parts for part in range(model.parts)], choices)
        mask: BoolArray = np.asarray(np.where(on, sizes, 1).prod(axis=1) == self.size)
        return mask


def group_rules(problem: Problem, values: Values) -> Mapping[int, GroupRule]:
    """The rules of ops inside regions, by position.

    Ops that read a group dim whole have none, and neither have ops on constants alone.
    """
    sizes_of: dict[str, dict[int, int]] = {}  # tensor -> slot of a group dim -> ranks
    rules: dict[int, GroupRule] = {}
    for position, op in enumerate(problem.ops):
        if _states_group(op):
            sizes_of[op.outputs[0].tensor] = _stated_slots(problem, op)
            continue
        ranks = {
            part: sizes_of[port.tensor][slot]
            for port in op.inputs
            if port.tensor in sizes_of
            for part, slot in port.slot_of.items()
            if slot in sizes_of[port.tensor]
        }
        if not ranks:
            continue
        for port in op.outputs:
            sizes_of[port.tensor] = {
                slot: ranks[part] for part, slot in port.slot_of.items() if part in ranks
            }
        is_constant = all(values.value_of[port.tensor].is_free for port in op.outputs)
        if position in values.views or is_constant:
            continue
        open_parts = {part for part in values.shardable[position] if op.parts[part].shardable}
        if ranks.keys() <= open_parts:
            rules[position] = GroupRule(frozenset(ranks), max(ranks.values()))
    return rules


def check_groups(problem: Problem, meshes: Sequence[Mesh]) -> None:
    """Raise RequestError for a group of a size that no axes of a mesh make."""
    products = sorted({ways for mesh in meshes for ways in _products(mesh)})
    for op in problem.ops:
        size = op.op.attrs.get("group", 1) if _states_group(op) else 1
        if size not in products:
            devices = max(products)
            nearest = ", ".join(str(ways) for ways in products)
            common = gcd(size, devices)
            raise RequestError(
                f"op {op.name!r} is in a region of {size} ranks, and no axes of any mesh make "
                f"{size} devices; they make {nearest}. Use a topology whose levels are multiples "
                f"of {size}, or a region of {common} ranks"
            )


def _states_group(op: OpInfo) -> bool:
    return op.op.kind == "identity" and "group" in op.op.attrs


def _stated_slots(problem: Problem, op: OpInfo) -> dict[int, int]:
    if not op.op.attrs.get("varies"):
        return {}
    slots = problem.tensors[op.outputs[0].tensor].slots
    return {k: int(op.op.attrs["group"]) for k, slot in enumerate(slots) if slot.dim == 0}


def _products(mesh: Mesh) -> set[int]:
    counts = {1}
    for axis in mesh.axes:
        counts |= {ways * axis.size for ways in counts}
    return counts
