"""Dims of an op's inputs and outputs: the parts on each, and the axes that a cut names."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Mesh
from meshwright_solver.problem.op_info import OpPort
from meshwright_solver.problem.problem import Problem


def parts_of_dims(problem: Problem, port: OpPort) -> Mapping[int, set[int]]:
    """The op's parts on each dim of a tensor."""
    info = problem.tensors[port.tensor]
    parts_of: dict[int, set[int]] = {d: set() for d in range(len(info.shape))}
    for part, slot in port.slot_of.items():
        parts_of[info.slots[slot].dim].add(part)
    return parts_of


def named_axes(mesh: Mesh, axes: tuple[str, ...]) -> tuple[bool, ...]:
    """Flags of the mesh axes named by axis or by level; axes of size 1 are never named."""
    return tuple(axis.size > 1 and bool({axis.name, axis.level} & set(axes)) for axis in mesh.axes)
