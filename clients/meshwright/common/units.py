"""Bytes, times and shares as text, with a unit and three digits."""

from __future__ import annotations

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def show_bytes(count: float) -> str:
    """Bytes in powers of 1024, such as `79.6 GiB`."""
    value = float(count)
    for unit in _BYTES[:-1]:
        if abs(value) < 1023.5:
            return f"{_digits(value)} {unit}"
        value /= 1024
    return f"{_digits(value)} {_BYTES[-1]}"


def show_ns(nanoseconds: float) -> str:
    """A time in nanoseconds as text, such as `812 ms`."""
    if nanoseconds == 0:
        return "0"
    for scale, unit in _TIMES:
        if abs(nanoseconds) >= scale * 0.9995:
            return f"{_digits(nanoseconds / scale)} {unit}"
    return f"{nanoseconds:.2g} ns"


def signed(difference: float, text: str) -> str:
    """The text of a difference's size with its sign; empty for no difference."""
    if difference == 0:
        return ""
    return f"{'+' if difference > 0 else '−'}{text}"


def show_share(part: float) -> str:
    """A share as percent, such as `3.2 %`; a small nonzero share is not shown as 0."""
    if part == 0:
        return "0 %"
    return "< 0.1 %" if 0 < part < 0.001 else f"{part * 100:.1f} %"


def _digits(value: float) -> str:
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"
