"""Numbers for people."""

from __future__ import annotations

import pytest

from meshwright.common.units import show_bytes, show_ns, show_share


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (85520809984, "79.6 GiB"),
        (1023.9 * 2**20, "1 GiB"),
        (2**60, "1024 PiB"),
    ],
)
def test_bytes(count: float, shown: str) -> None:
    assert show_bytes(count) == shown


@pytest.mark.parametrize(
    ("time_ns", "shown"),
    [
        (0, "0"),
        (0.25, "0.25 ns"),
        (1, "1 ns"),
        (999.9, "1 µs"),
        (12_340, "12.3 µs"),
        (871.4e6, "871 ms"),
        (999.99e6, "1 s"),
        (3.5e9, "3.5 s"),
    ],
)
def test_times(time_ns: float, shown: str) -> None:
    assert show_ns(time_ns) == shown


@pytest.mark.parametrize(
    ("part", "shown"), [(0, "0 %"), (0.00001, "< 0.1 %"), (0.0321, "3.2 %"), (1.2, "120.0 %")]
)
def test_shares(part: float, shown: str) -> None:
    assert show_share(part) == shown
