"""Robust least squares of logarithms with priors, for constants from measured times.

    minimize sum_i rho(log(t_i / measured_i) / noise_i) + sum_j rho(log(c_j / prior_j) / width_j)

t_i is the time of a model with the constants c. rho is the soft L1 loss, which limits the effect of
outliers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]


def fit_logs(
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
    """The logarithms of the constants, and their standard deviations with priors included.

    predicted: maps logarithms of constants to logarithms of times. measured, prior: logarithms of
    times and of constants. noise, widths: standard deviations of both. step: backward step for
    slopes of predictions that are not smooth or end at a bound; by default scipy's. max_rounds: the
    most evaluations.
    """

    def residuals(logs: Column) -> Column:
        return np.concatenate([(predicted(logs) - measured) / noise, (logs - prior) / widths])

    def slopes(logs: Column) -> Column:
        assert step is not None
        current = residuals(logs)
        columns = [(current - residuals(logs - step * unit)) / step for unit in np.eye(len(logs))]
        return np.stack(columns, axis=1)

    # slow to import, and most processes of the service do not fit
    from scipy.optimize import least_squares

    low, high = bounds or (np.full(len(prior), -np.inf), np.full(len(prior), np.inf))
    solution = least_squares(
        residuals, np.clip(prior, low, high), jac=slopes if step else "2-point",
        bounds=(low, high), loss="soft_l1", max_nfev=max_rounds,
    )  # fmt: skip
    return solution.x, np.sqrt(np.diag(np.linalg.inv(solution.jac.T @ solution.jac)))
