"""Comparison of several plans as a table: figures, best values, differences of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from meshwright.launch_options.uniform import uniform_of
from meshwright.reports.comparison import part_name, step_parts, totals_of
from meshwright.reports.plan_figures import degrees_text
from meshwright.reports.request_difference import RequestSide, differing_options
from meshwright.reports.throughput import Throughput, throughput_of
from meshwright.schema import Graph, Plan, PlanError, Setup, Topology
from meshwright.schema.comparison import PlanTotals
from meshwright.schema.comparison_table import (
    MOST_PLANS,
    ComparisonTable,
    FigureRow,
    PlanColumn,
    TextRow,
    Unit,
)
from meshwright.schema.cost import MEMORY_PARTS

Better = Literal["less", "more"]


@dataclass(frozen=True, slots=True)
class TableSide:
    """A plan of the table with the documents that it belongs to, as far as they are known."""

    plan: Plan
    graph: Graph
    setup: Setup | None = None
    topology: Topology | None = None

    @property
    def request(self) -> RequestSide:
        name = "" if self.topology is None else self.topology.name
        return RequestSide(self.plan, self.setup, name)


def comparison_table(sides: Sequence[TableSide], baseline: int = 0) -> ComparisonTable:
    """The table of two to eight plans. baseline: the position of the plan to compare with."""
    if not 2 <= len(sides) <= MOST_PLANS:
        raise PlanError(f"{len(sides)} plans. A table compares 2 to {MOST_PLANS}")
    if not 0 <= baseline < len(sides):
        raise PlanError(f"there is no plan {baseline + 1} for a baseline. Use 1 to {len(sides)}")
    columns = [_column(side.plan) for side in sides]
    rows = _Rows([column.fits for column in columns], baseline)
    totals = [totals_of(side.plan, side.graph, side.setup) for side in sides]
    rates = [
        throughput_of(side.plan, side.graph, side.topology, side.setup or Setup()) for side in sides
    ]
    return ComparisonTable(
        plans=tuple(columns),
        baseline=baseline,
        requested=tuple(
            TextRow(name=name, values=values)
            for name, values in differing_options([side.request for side in sides])
        ),
        chosen=tuple(_chosen(sides, totals)),
        figures=(
            *_speed(rows, totals, rates),
            *_parts_of_step(rows, totals),
            *_memory(rows, totals),
            *_size(rows, totals, rates),
        ),
    )


def _column(plan: Plan) -> PlanColumn:
    memory = plan.cost.memory_bytes
    return PlanColumn(
        plan=plan.id,
        name=plan.name,
        fits=memory.total <= memory.capacity,
        outcome=plan.search.outcome,
    )


def _chosen(sides: Sequence[TableSide], totals: Sequence[PlanTotals]) -> Iterator[TextRow]:
    degrees = [
        degrees_text(uniform_of(side.plan, side.graph, side.setup or Setup())) for side in sides
    ]
    yield TextRow(name="degrees", values=tuple(degrees))
    yield TextRow(name="mesh", values=tuple(map(_meshes, totals)))
    yield TextRow(name="schedule", values=tuple(side.schedule or "none" for side in totals))
    yield TextRow(
        name="recompute", values=tuple(", ".join(side.recompute) or "none" for side in totals)
    )


def _meshes(totals: PlanTotals) -> str:
    names = (
        " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes) or "one device"
        for mesh in totals.meshes
    )
    return "; ".join(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of figures. fits: of the plans."""

    fits: Sequence[bool]
    baseline: int

    def row(
        self,
        group: Literal["speed", "step", "memory", "size"],
        name: str,
        unit: Unit,
        better: Better | None,
        values: Sequence[float | None],
    ) -> FigureRow:
        base = values[self.baseline]
        return FigureRow(
            name=name,
            group=group,
            unit=unit,
            better=better,
            values=tuple(values),
            changes=tuple(
                None if value is None or base is None else value - base for value in values
            ),
            best=self._best(better, values),
        )

    def _best(self, better: Better | None, values: Sequence[float | None]) -> tuple[int, ...]:
        known = [
            (value, position)
            for position, value in enumerate(values)
            if value is not None and (self.fits[position] or not any(self.fits))
        ]
        if better is None or len({value for value, _ in known}) < 2:
            return ()
        pick: Callable[..., tuple[float, int]] = min if better == "less" else max
        best, _ = pick(known)
        return tuple(position for value, position in known if value == best)


def _speed(
    rows: _Rows, totals: Sequence[PlanTotals], rates: Sequence[Throughput]
) -> Iterator[FigureRow]:
    is_same_batch = len({side.batch for side in totals}) == 1
    better: Better | None = "less" if is_same_batch else None
    yield rows.row("speed", "step", "ns", better, [side.step_ns for side in totals])
    if not is_same_batch:
        of_sample = [side.step_ns / side.batch if side.batch else None for side in totals]
        yield rows.row("speed", "step for a sample", "ns", "less", of_sample)
    yield rows.row("speed", "samples", "per_s", "more", [rate.samples_per_s for rate in rates])
    if any(rate.tokens_per_s is not None for rate in rates):
        tokens = [rate.tokens_per_s for rate in rates]
        yield rows.row("speed", "tokens", "per_s", "more", tokens)
        of_device = [rate.per_device(rate.tokens_per_s) for rate in rates]
        yield rows.row("speed", "tokens of a device", "per_s", "more", of_device)
    else:
        of_device = [rate.per_device(rate.samples_per_s) for rate in rates]
        yield rows.row("speed", "samples of a device", "per_s", "more", of_device)
    yield rows.row("speed", "MFU", "share", "more", [rate.utilization for rate in rates])


def _parts_of_step(rows: _Rows, totals: Sequence[PlanTotals]) -> Iterator[FigureRow]:
    """The parts of the step, or of its share of one sample where the batches differ."""
    per_sample = all(side.batch for side in totals) and len({side.batch for side in totals}) > 1
    parts = [step_parts(side) for side in totals]
    over = [(side.batch or 1) if per_sample else 1 for side in totals]
    for kind in dict.fromkeys(kind for side in parts for kind in side):
        values = [side.get(kind, 0.0) / count for side, count in zip(parts, over, strict=True)]
        if any(values):
            name = part_name(kind) + (" for a sample" if per_sample else "")
            yield rows.row("step", name, "ns", "less", values)


def _memory(rows: _Rows, totals: Sequence[PlanTotals]) -> Iterator[FigureRow]:
    needed = [side.memory_total_bytes for side in totals]
    yield rows.row("memory", "memory of a device", "bytes", "less", needed)
    free = [side.memory_bytes.capacity - side.memory_total_bytes for side in totals]
    yield rows.row("memory", "memory free", "bytes", "more", free)
    for part in MEMORY_PARTS:
        values = [getattr(side.memory_bytes, part) for side in totals]
        if any(values):
            better: Better | None = None if part == "reserved" else "less"
            yield rows.row("memory", part, "bytes", better, values)


def _size(
    rows: _Rows, totals: Sequence[PlanTotals], rates: Sequence[Throughput]
) -> Iterator[FigureRow]:
    yield rows.row("size", "devices", "count", None, [rate.devices for rate in rates])
    yield rows.row("size", "batch", "count", None, [side.batch for side in totals])
    yield rows.row("size", "microbatches", "count", None, [side.microbatches for side in totals])
