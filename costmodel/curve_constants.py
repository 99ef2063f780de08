"""The constants of a device's curves as one vector, and back: what a fit moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.curves import Constant, DeviceCurves
from meshwright.schema.model import Model

Column = NDArray[np.float64]
DIGITS = 4  # of what a fit writes down; more would say nothing


@dataclass(frozen=True, slots=True)
class CurveConstants:
    """Curves seen as their constants, by name: `product.share`, `protocols.LL.start_ns`."""

    curves: DeviceCurves
    names: tuple[str, ...]

    @classmethod
    def of(cls, curves: DeviceCurves) -> CurveConstants:
        return cls(curves, tuple(name for name, _ in curves.constants()))

    @property
    def logs(self) -> Column:
        return np.log([own.value for _, own in self.curves.constants()])

    @property
    def spreads(self) -> Column:
        return np.array([own.spread for _, own in self.curves.constants()])

    def with_values(self, logs: Column) -> DeviceCurves:
        """Curves with other values, of the same spreads and sources."""
        values = dict(zip(self.names, np.exp(logs).tolist(), strict=True))
        found = _replaced(self.curves, "", lambda name, own: own.like(value=values[name]))
        assert isinstance(found, DeviceCurves)
        return found

    def at_least(self, spread: float) -> DeviceCurves:
        """Curves that are no surer than so: what a device says of a relative."""
        found = _replaced(self.curves, "", lambda _, own: own.like(spread=max(own.spread, spread)))
        assert isinstance(found, DeviceCurves)
        return found

    def fitted(self, logs: Column, spreads: Column, widths: Column, source: str) -> DeviceCurves:
        """Curves after a fit that was held to these within `widths`.

        Constants of which samples said next to nothing stay as they are; none becomes less sure by
        samples, whatever the curvature where the fit ended.
        """
        spreads = np.minimum(spreads, widths)
        told = np.maximum(1 - spreads / widths, np.abs(logs - self.logs) / widths)
        found = {
            name: Constant(value=_short(value), spread=_short(spread), source=source)
            for name, value, spread, said in zip(
                self.names, np.exp(logs).tolist(), spreads.tolist(), told.tolist(), strict=True
            )
            if said >= LEARNT
        }
        changed = _replaced(self.curves, "", lambda name, own: found.get(name, own))
        assert isinstance(changed, DeviceCurves)
        return changed


# chosen: what samples move and narrow by less than a tenth of its width they say nothing of
LEARNT = 0.1


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _replaced(own: Model, prefix: str, change: Callable[[str, Constant], Constant]) -> Model:
    changes: dict[str, Any] = {}
    for field in type(own).model_fields:
        value = getattr(own, field)
        if isinstance(value, Constant):
            changes[field] = change(prefix + field, value)
        elif isinstance(value, Model):
            changes[field] = _replaced(value, f"{prefix}{field}.", change)
        elif isinstance(value, tuple):
            changes[field] = tuple(
                _replaced(each, f"{prefix}{field}.{each.name}.", change) for each in value
            )
    return own.like(**changes)
