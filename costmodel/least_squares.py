"""Constants from measured times: least squares of logarithms, robust, held to priors.

    minimise sum_i rho(log(t_i / measured_i) / noise_i) + sum_j rho(log(c_j / prior_j) / width_j)

t_i: what a model with the constants c says. rho: soft L1, so that a few odd times count little.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]


def fitted_logs(
    predicted: Callable[[Column], Column],
    measured: Column,
    noise: Column,
    prior: Column,
    widths: Column | float,
    *,
    bounds: tuple[Column, Column] | None = None,
    step: float | None = None,
    max_rounds: int | None = None,
) -> tuple[Column, Column]:
    """Logarithms of constants, and their standard deviations, priors included.

    predicted: logarithms of times for those of constants. measured, prior: logarithms. noise,
    widths: standard deviations of both. step: downwards, for slopes, where predictions are not
    smooth or end at a bound; scipy's own by default. max_rounds: evaluations at most.
    """

    def residuals(logs: Column) -> Column:
        return np.concatenate([(predicted(logs) - measured) / noise, (logs - prior) / widths])

    def slopes(logs: Column) -> Column:
        assert step is not None
        here = residuals(logs)
        columns = [(here - residuals(logs - step * one)) / step for one in np.eye(len(logs))]
        return np.stack(columns, axis=1)

    # takes longer to load than the service itself, and most of its processes fit nothing
    from scipy.optimize import least_squares

    low, high = bounds or (np.full(len(prior), -np.inf), np.full(len(prior), np.inf))
    found = least_squares(
        residuals, np.clip(prior, low, high), jac=slopes if step else "2-point",
        bounds=(low, high), loss="soft_l1", max_nfev=max_rounds,
    )  # fmt: skip
    return found.x, np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))
