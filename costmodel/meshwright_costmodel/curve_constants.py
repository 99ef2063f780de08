"""Parameters of a fit: the constants of a device's curves as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.curves import Constant, DeviceCurves
from meshwright.schema.model import Model

Column = NDArray[np.float64]
DIGITS = 4  # chosen: significant digits of fitted constants


@dataclass(frozen=True, slots=True)
class CurveConstants:
    """The constants of curves by name, such as `product.share` and `protocols.LL.start_ns`."""

    curves: DeviceCurves
    names: tuple[str, ...]

    @classmethod
    def of(cls, curves: DeviceCurves) -> CurveConstants:
        return cls(curves, tuple(name for name, _ in curves.constants()))

    @property
    def logs(self) -> Column:
        return np.log([constant.value for _, constant in self.curves.constants()])

    @property
    def spreads(self) -> Column:
        return np.array([constant.spread for _, constant in self.curves.constants()])

    def with_values(self, logs: Column) -> DeviceCurves:
        """Curves with these logarithms of values, and unchanged spreads and sources."""
        values = dict(zip(self.names, np.exp(logs).tolist(), strict=True))
        return self.changed(lambda name, constant: constant.like(value=values[name]))

    def changed(self, change: Callable[[str, Constant], Constant]) -> DeviceCurves:
        """Curves with every constant replaced by `change` of its name and value."""
        curves = _with_constants(self.curves, "", change)
        assert isinstance(curves, DeviceCurves)
        return curves

    def at_least(self, spread: float) -> DeviceCurves:
        """Curves with spreads of at least `spread`, for use on a related device."""
        return self.changed(lambda _, constant: constant.like(spread=max(constant.spread, spread)))

    def fit_result(
        self, logs: Column, spreads: Column, widths: Column, source: str
    ) -> DeviceCurves:
        """Curves after a fit with these constants as priors of the widths `widths`.

        Constants that the samples hardly determine stay unchanged. Samples never increase a spread,
        whatever the curvature at the optimum.
        """
        spreads = np.minimum(spreads, widths)
        informativeness = np.maximum(1 - spreads / widths, np.abs(logs - self.logs) / widths)
        constants = {
            name: Constant(value=_rounded(value), spread=_rounded(spread), source=source)
            for name, value, spread, information in zip(
                self.names,
                np.exp(logs).tolist(),
                spreads.tolist(),
                informativeness.tolist(),
                strict=True,
            )
            if information >= LEARNT
        }
        return self.changed(lambda name, constant: constants.get(name, constant))


# chosen: samples determine a constant that they move or narrow by a tenth of its width
LEARNT = 0.1


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _with_constants(
    model: Model, prefix: str, change: Callable[[str, Constant], Constant]
) -> Model:
    changes: dict[str, Any] = {}
    for field in type(model).model_fields:
        value = getattr(model, field)
        if isinstance(value, Constant):
            changes[field] = change(prefix + field, value)
        elif isinstance(value, Model):
            changes[field] = _with_constants(value, f"{prefix}{field}.", change)
        elif isinstance(value, tuple):
            changes[field] = tuple(
                _with_constants(item, f"{prefix}{field}.{item.name}.", change) for item in value
            )
    return model.like(**changes)
