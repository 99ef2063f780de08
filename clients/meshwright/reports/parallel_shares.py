"""Parallelism of a plan by module: over how many devices its ops are cut, and in which dims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from meshwright.common.name_ranges import block_part, fold
from meshwright.launch_options.roles import OpRoles
from meshwright.schema import Stage
from meshwright.schema.parallel_shares import ParallelShare
from meshwright.schema.uniform_degrees import Role

_LEAST = 0.005  # chosen: of the compute time; smaller groups are one row
_ROLES: tuple[Role, ...] = ("dp", "ep", "cp", "tp")

_Ways = tuple[tuple[Role, int], ...]


def parallel_shares(stages: Sequence[tuple[Stage, list[OpRoles]]]) -> tuple[ParallelShare, ...]:
    """Groups of modules whose ops are cut alike, by their share of the compute time of a step.

    The last row without a name is of all smaller groups; the shares add up to 1.

    stages: the stages of a plan, each with its `op_roles`.
    """
    items = list(_items(stages))
    total_ns = sum(ns for _, _, ns in items)
    if not total_ns:
        return ()
    ns_of: dict[tuple[str, _Ways], float] = {}
    for module, ways, ns in items:
        ns_of[module, ways] = ns_of.get((module, ways), 0.0) + ns
    rows = []
    for repeat in fold((module, ways, (ways, ns)) for (module, ways), ns in ns_of.items()):
        ways, _ = repeat.first
        share = sum(ns for _, ns in repeat.items) / total_ns
        rows.append(
            ParallelShare(modules=repeat.label, count=repeat.count, ways=dict(ways), share=share)
        )
    large = sorted([row for row in rows if row.share >= _LEAST], key=lambda row: -row.share)
    small = [row for row in rows if row.share < _LEAST]
    if small:
        rest = sum(row.share for row in small)
        large.append(ParallelShare(modules="", count=sum(row.count for row in small), share=rest))
    return tuple(large)


def _items(
    stages: Sequence[tuple[Stage, list[OpRoles]]],
) -> Iterator[tuple[str, _Ways, float]]:
    """The module, the ways and the compute time of every op, in nanoseconds."""
    for stage, roles in stages:
        sizes = {str(axis.name): axis.size for axis in stage.mesh.axes}
        role_of_op = {op.planned.op: op for op in roles}
        for planned in stage.ops:
            op = role_of_op.get(planned.op)
            on = {} if op is None else op.on
            counts = {
                role: prod(sizes[axis] for axis, own in on.items() if own == role)
                for role in _ROLES
            }
            ways = tuple((role, count) for role, count in counts.items() if count > 1)
            module = planned.op if op is None else op.op.module or planned.op
            yield block_part(module), ways, planned.compute_ns
