"""Changes between two plans by module, with repeated modules folded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meshwright.common.name_ranges import block_part, pattern
from meshwright.reports.ops import OpShare
from meshwright.schema import Plan
from meshwright.schema.comparison import ModuleChange, ModuleCost, ModulePart

SMALL = 1e-3  # chosen: of the totals; smaller changes of modules are folded into one line
_FIELDS = ("compute_ns", "communication_ns", "parameter_bytes", "saved_bytes")

_NO_COST = ModuleCost(**dict.fromkeys(_FIELDS, 0.0))


@dataclass(frozen=True, slots=True)
class PlanShares:
    """A plan with the shares of its ops (`meshwright.reports.ops.shares_of`).

    samples: by which times are divided; None for times of a step.
    """

    plan: Plan
    shares: Sequence[OpShare]
    samples: int | None = None

    @property
    def ranks(self) -> int:
        """The number of pipeline ranks."""
        return len({stage.ranks_from for stage in self.plan.stages})


def module_changes(first: PlanShares, second: PlanShares) -> tuple[ModuleChange, ...]:
    """The changes of all groups of modules, largest change of time first.

    A group has the modules of one part of a repeated block, such as `model.layers.*.mlp`, or one
    module outside of repeated blocks. If both plans have one stage, the update of the optimizer is
    a group too, and the sums over the groups are the compute time, the communication time, the
    state and the saved activations of the plans.
    """
    costs = _costs_by_group(first), _costs_by_group(second)
    members = _modules_by_group((*first.shares, *second.shares))
    changes = [
        _change("modules", group, len(members[group]), *(side.get(group) for side in costs))
        for group in dict.fromkeys((*costs[0], *costs[1]))
    ]
    updates = _optimizer_update(first), _optimizer_update(second)
    if updates[0] is not None and updates[1] is not None:
        changes.append(_change("optimizer update", "", 1, *updates))
    return tuple(_with_small_changes_marked(changes))


def small_changes(changes: Sequence[ModuleChange]) -> ModuleChange | None:
    """The sum of the small changes; None if there are none."""
    small = [change for change in changes if change.small]
    return _sum("small", small) if small else None


def all_changes(changes: Sequence[ModuleChange]) -> ModuleChange:
    """The sum of all groups of modules."""
    return _sum("all", changes)


def _sum(part: ModulePart, changes: Sequence[ModuleChange]) -> ModuleChange:
    first, second = (
        ModuleCost(**{field: sum(getattr(cost, field) for cost in costs) for field in _FIELDS})
        for costs in ([c.first for c in changes], [c.second for c in changes])
    )
    return _change(part, "", len(changes), first, second)


def module_group(module: str) -> str:
    """The group of a module: the part of the outermost repeated block that it belongs to.

    `model.layers.3.mlp.up_proj` belongs to `model.layers.*.mlp`.
    """
    return pattern(block_part(module))


def _modules_by_group(shares: Iterable[OpShare]) -> dict[str, set[str]]:
    """The modules at the depth of their group, by group."""
    members: defaultdict[str, set[str]] = defaultdict(set)
    for share in shares:
        members[module_group(share.module)].add(block_part(share.module))
    return members


def _costs_by_group(side: PlanShares) -> dict[str, ModuleCost]:
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * len(_FIELDS))
    per_ns, stages = side.ranks * (side.samples or 1), side.plan.stages
    for share in side.shares:
        host_ns = sum(parameter.host_ns + parameter.link_ns for parameter in share.parameters)
        totals = sums[module_group(share.module)]
        totals[0] += share.own.compute_ns / per_ns
        totals[1] += (share.communication_ns + host_ns) / per_ns
        totals[2] += share.parameter_bytes / side.ranks
        totals[3] += share.saved_bytes * stages[share.stage].in_flight / side.ranks
    return {
        group: ModuleCost(**dict(zip(_FIELDS, totals, strict=True)))
        for group, totals in sums.items()
    }


def _optimizer_update(side: PlanShares) -> ModuleCost | None:
    """The compute time outside of ops. None for a pipeline, whose cost is that of one rank."""
    if len(side.plan.stages) > 1:
        return None
    of_ops_ns = sum(share.own.compute_ns for share in side.shares)
    outside_ns = max(0.0, side.plan.cost.compute_ns - of_ops_ns)
    return _NO_COST.model_copy(update={"compute_ns": outside_ns / (side.samples or 1)})


def _change(
    part: ModulePart,
    module: str,
    count: int,
    first: ModuleCost | None,
    second: ModuleCost | None,
) -> ModuleChange:
    before, after = first or _NO_COST, second or _NO_COST
    return ModuleChange(
        part=part,
        module=module,
        count=count,
        first=before,
        second=after,
        ns=after.ns - before.ns,
        bytes=after.bytes - before.bytes,
    )


def _with_small_changes_marked(changes: Sequence[ModuleChange]) -> list[ModuleChange]:
    total = all_changes(changes)
    least_ns = SMALL * max(total.first.ns, total.second.ns)
    least_bytes = SMALL * max(total.first.bytes, total.second.bytes)
    marked = [
        change.model_copy(
            update={"small": abs(change.ns) <= least_ns and abs(change.bytes) <= least_bytes}
        )
        for change in changes
    ]
    return sorted(marked, key=lambda change: (-abs(change.ns), -abs(change.bytes)))
