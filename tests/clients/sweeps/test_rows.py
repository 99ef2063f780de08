"""Rows of a sweep: prices worked out by hand, and the front against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.plugins.planner import preset
from meshwright.schema import RequestError
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.sweep import Sweep, SweepPoint, SweepRow
from meshwright.sweeps import row_of, with_front
from meshwright.sweeps.rows import check_prices, price_per_hour

POINT = SweepPoint(topology="h100-2x8")


def figures(devices: int, rate: float | None, memory: int = 8) -> PlanFigures:
    return PlanFigures(
        plan="plan_1",
        outcome="feasible",
        gap=0.0,
        step_ns=1e9,
        devices=devices,
        samples_per_s=rate,
        memory_bytes=memory,
        capacity_bytes=10,
        microbatches=1,
        degrees="dp 2",
    )


def test_prices_and_days_of_a_run() -> None:
    sweep = Sweep(topologies=("h100-2x8",), prices={"h100": 2.0}, tokens=86_400_000)
    row = row_of(sweep, POINT, "planned", topology=preset("h100-2x8"), figures=figures(16, 1000.0))
    assert row.price_per_hour == 32.0  # 16 devices at 2 an hour
    assert row.price_per_million == pytest.approx(32 / 3600 * 1000)  # a million takes 1,000 s
    assert row.run_days == pytest.approx(1.0)
    assert row.run_price == pytest.approx(24 * 32)


def test_a_plan_that_does_not_fit_has_no_price() -> None:
    sweep = Sweep(topologies=("h100-2x8",), prices={"h100": 2.0}, tokens=10)
    row = row_of(
        sweep, POINT, "planned", topology=preset("h100-2x8"), figures=figures(16, 1e3, memory=11)
    )
    assert (row.price_per_million, row.run_days, row.run_price) == (None, None, None)


@pytest.mark.parametrize(
    ("prices", "name", "price"),
    [
        ({"h100": 2.0}, "h100-2x8", 32.0),
        ({"H100": 2.0, "h100-2x8": 1.0}, "h100-2x8", 16.0),
        ({"a100-80g": 1.5, "a100": 9.0}, "a100-80g-1x8", 12.0),
        ({"NVIDIA H100 SXM5 80GB": 3.0}, "h100-1x8", 24.0),
        ({"b200": 3.0}, "h100-1x8", None),
        ({"h10": 3.0}, "h100-1x8", None),
        ({"a100-80g": 1.0, "h100": 2.0}, "a100-80g-1x8+h100-1x8", 24.0),
        ({"h100": 2.0}, "a100-80g-1x8+h100-1x8", None),
    ],
)
def test_a_price_is_of_a_topology_a_device_or_presets(
    prices: dict[str, float], name: str, price: float | None
) -> None:
    assert price_per_hour(prices, name, preset(name)) == price


def test_a_price_of_no_topology_is_refused() -> None:
    topologies = {"h100-1x8": preset("h100-1x8")}
    with pytest.raises(RequestError, match="'h1000' is of no topology"):
        check_prices(Sweep(topologies=("h100-1x8",), prices={"h1000": 1.0}), topologies)
    check_prices(Sweep(topologies=("h100-1x8",), prices={"h100": 1.0}), topologies)


ROWS = st.lists(
    st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(0, 4)), st.integers(9, 11)),
    max_size=8,
)


@given(ROWS)
def test_the_front_is_that_of_brute_force(values: list[tuple[int, int | None, int]]) -> None:
    rows = with_front(
        SweepRow(
            point=POINT,
            state="planned",
            figures=figures(devices, None if rate is None else float(rate), memory),
        )
        for devices, rate, memory in values
    )
    fitting = [
        (place, devices, rate)
        for place, (devices, rate, memory) in enumerate(values)
        if rate and memory <= 10
    ]
    for place, row in enumerate(rows):
        mine = next((point for point in fitting if point[0] == place), None)
        if mine is None:
            assert not row.on_front
            continue
        _, devices, rate = mine
        better = [
            other
            for other in fitting
            if (other[1] <= devices and other[2] >= rate and other[1:] != mine[1:])
            or (other[1:] == mine[1:] and other[0] < place)  # of equals the first
        ]
        assert row.on_front == (not better)
