"""Waste: devices of a plan that do no distinct work.

For an op, an axis on a factor of its rule divides the work, and every other axis repeats it. A
device with an empty chunk has no work. For a pipeline rank, the devices with distinct work are the
mean over its ops, weighted by compute time. The plan has the sum over its pipeline ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from meshwright.schema.graph import Graph
from meshwright.schema.layout import SubDim
from meshwright.schema.mesh import Axis
from meshwright.schema.plan import Plan
from meshwright.schema.setup import Setup, step_batch
from meshwright.schema.stage import Stage

MOST = 0.5  # chosen: the share of devices, or of the step, above which a plan has a headline


@dataclass(frozen=True, slots=True)
class Waste:
    """The waste of a plan.

    `distinct` is the number of devices that do distinct work. `waiting` is the share of the step, 0
    to 1, for which the pipeline rank that works longest waits for others. `batch` is the batch of a
    microbatch in samples, or None if unknown.
    """

    devices: int
    distinct: int
    waiting: float = 0.0
    batch: int | None = None

    @property
    def headline(self) -> str:
        """A warning in a sentence; empty if most devices do distinct work."""
        unused = self.devices - self.distinct
        if unused > MOST * self.devices:
            is_divided = self.batch is not None and self.batch <= self.distinct
            why = f": the batch of {self.batch:,} cannot be cut further" if is_divided else ""
            many = f"{self.distinct:,} device{'s' if self.distinct > 1 else ''}"
            return (
                f"{unused:,} of {self.devices:,} devices repeat the work of others{why}. "
                f"Use at most {many}{', or a larger batch' if is_divided else ''}."
            )
        if self.waiting > MOST:
            return (
                f"The pipeline ranks wait for each other for {self.waiting * 100:.0f} % of the "
                "step. Use more microbatches or fewer pipeline ranks."
            )
        return ""


def waste_of(plan: Plan, graph: Graph | None = None, setup: Setup | None = None) -> Waste:
    """The waste of a plan. The batch is known with its graph and setup."""
    ranks: dict[int, list[Stage]] = {}
    for stage in plan.stages:
        ranks.setdefault(stage.ranks_from, []).append(stage)
    batch = None if graph is None else step_batch(graph, setup or Setup())
    return Waste(
        devices=sum(stages[0].mesh.device_count for stages in ranks.values()),
        distinct=sum(_distinct(stages) for stages in ranks.values()),
        waiting=plan.cost.bubble_ns / plan.cost.step_ns if plan.cost.step_ns else 0.0,
        batch=None if batch is None else batch // plan.microbatches,
    )


def _distinct(stages: list[Stage]) -> int:
    """The number of devices of a pipeline rank that do distinct work; all if it has no work."""
    compute_ns = work_ns = 0.0
    for stage in stages:
        sizes = {axis.name: axis.size for axis in stage.mesh.axes}
        shares = _chunk_shares(stage, sizes)
        for op in stage.ops:
            ways = prod(
                prod(sizes.get(axis, 1) for axis in axes) * shares.get(axes, 1.0)
                for axes in op.strategy.values()
            )
            compute_ns += op.compute_ns
            work_ns += op.compute_ns * ways
    count = stages[0].mesh.device_count
    if not compute_ns:
        return count
    # rounding errors must not add a device
    return max(1, min(count, ceil(work_ns / compute_ns - 1e-6)))


def _chunk_shares(stage: Stage, sizes: dict[Axis, int]) -> dict[tuple[Axis, ...], float]:
    """The largest share of chunks that are not empty, 0 to 1, by the axes of the sub-dim."""
    shares: dict[tuple[Axis, ...], float] = {}
    layouts = [tensor.rest.value for tensor in stage.tensors]
    layouts += [tensor.read.value for tensor in stage.tensors if tensor.read is not None]
    for part in (part for layout in layouts for dim in layout.dims for part in dim.parts):
        if part.axes:
            share = _share(part, prod(sizes.get(axis, 1) for axis in part.axes))
            shares[part.axes] = max(shares.get(part.axes, 0.0), share)
    return shares


def _share(part: SubDim, ways: int) -> float:
    if part.chunks:
        return sum(length > 0 for length in part.chunks) / len(part.chunks)
    chunk = ceil((part.span or part.size) / ways)
    return min(1.0, ceil(part.size / chunk) / ways)
