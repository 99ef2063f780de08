"""Rows of a sweep: prices and durations of its plans, and the front of throughput and devices.

price_per_million = price_per_hour · 10⁶ / (3600 · tokens_per_s)
run_days          = tokens / (86400 · tokens_per_s)
run_price         = 24 · run_days · price_per_hour
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from meshwright.schema import RequestError, Topology
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.sweep import Sweep, SweepPoint, SweepRow, SweepState

_HOUR_S = 3600.0
_DAY_S = 86400.0


def row_of(
    sweep: Sweep,
    point: SweepPoint,
    state: SweepState,
    *,
    topology: Topology | None = None,
    figures: PlanFigures | None = None,
    reason: str = "",
    job: str | None = None,
) -> SweepRow:
    """The row of a point, with the prices of its plan. topology: None if it is unknown."""
    rate = None if topology is None else price_per_hour(sweep.prices, point.topology, topology)
    units_per_s = figures.units_per_s if figures is not None and figures.fits else None
    days = sweep.tokens / units_per_s / _DAY_S if units_per_s and sweep.tokens else None
    return SweepRow(
        point=point,
        state=state,
        figures=figures,
        reason=reason,
        job=job,
        price_per_hour=rate,
        price_per_million=(
            None if rate is None or not units_per_s else rate * 1e6 / (_HOUR_S * units_per_s)
        ),
        run_days=days,
        run_price=None if rate is None or days is None else 24 * days * rate,
    )


def with_front(rows: Iterable[SweepRow]) -> tuple[SweepRow, ...]:
    """The rows, with those of the Pareto front marked.

    A row is on the front if its plan fits and no other has at least its throughput on fewer
    devices, or a higher one on as many. Throughput counts tokens, or samples without sequences.
    """
    rows = tuple(rows)
    fitting = {
        place: (row.figures.devices, -row.figures.units_per_s)
        for place, row in enumerate(rows)
        if row.figures is not None and row.figures.fits and row.figures.units_per_s
    }
    front: set[int] = set()
    least = float("inf")
    for place, (_, negative_rate) in sorted(fitting.items(), key=lambda item: item[1]):
        if negative_rate < least:
            front.add(place)
            least = negative_rate
    return tuple(
        row.model_copy(update={"on_front": place in front}) for place, row in enumerate(rows)
    )


def price_per_hour(prices: Mapping[str, float], name: str, topology: Topology) -> float | None:
    """The price of all devices of a topology for an hour; None where a device has no price.

    name: of the preset or of the document. A price is that of the topology, of a device, or of the
    presets whose names begin with it.
    """
    total = 0.0
    for part, group in _groups(name, topology):
        price = _device_price(prices, name, part, group.device.name)
        if price is None:
            return None
        total += price * group.device_count
    return total


def check_prices(sweep: Sweep, topologies: Mapping[str, Topology]) -> None:
    """Raise RequestError for a price that is of no topology of the sweep."""
    for key in sweep.prices:
        groups = (
            (name, part, group.device.name)
            for name, topology in topologies.items()
            for part, group in _groups(name, topology)
        )
        if all(_device_price({key: 1.0}, *names) is None for names in groups):
            raise RequestError(
                f"the price of {key[:80]!r} is of no topology of the sweep. Use the first part of "
                "a preset's name, such as h100, or the name of a device",
                pointer="/prices",
            )


def _groups(name: str, topology: Topology) -> Iterator[tuple[str, Topology]]:
    """The groups of equal devices, each with its part of the name of a mixed preset."""
    groups, parts = topology.groups, name.split("+")
    yield from zip(
        parts if len(parts) == len(groups) else [name] * len(groups), groups, strict=True
    )


def _device_price(prices: Mapping[str, float], name: str, part: str, device: str) -> float | None:
    """The price of a device of a group; the longest key that begins the part of a name wins."""
    lowered = {key.casefold(): price for key, price in prices.items()}
    for exact in (name.casefold(), part.casefold(), device.casefold()):
        if exact in lowered:
            return lowered[exact]
    begins = [key for key in lowered if part.casefold().startswith(f"{key}-")]
    return lowered[max(begins, key=len)] if begins else None
