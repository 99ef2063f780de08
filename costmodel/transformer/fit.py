"""Constants from measured steps: least squares of logarithms, robust, held to the priors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from costmodel.transformer.constants import PRIOR, SPREAD, Constants
from costmodel.transformer.runs import Column, Runs
from costmodel.transformer.step import steps

# chosen: the noise between releases of one framework is 2 to 6 % (published rows of one source
# and one configuration), so a logarithm that is 0.06 off counts as much as a prior one spread off
NOISE = 0.06
# chosen: a source weighs as much as nine independent measurements, whatever number of rows it has,
# as what its rows get wrong together is not averaged out
MEASUREMENTS_A_SOURCE = 9.0


@dataclass(frozen=True, slots=True)
class Fitted:
    """spreads: standard deviations of the constants' logarithms, priors included."""

    constants: Constants
    spreads: Column


def fit(
    runs: Runs,
    measured_s: Column,
    sources: NDArray[np.str_],
    without: frozenset[str] = frozenset(),
) -> Fitted:
    """The constants of least error over measured steps, every source weighing the same."""
    _, which, counts = np.unique(sources, return_inverse=True, return_counts=True)
    weights = np.sqrt(MEASUREMENTS_A_SOURCE / counts[which]) / NOISE
    measured = np.log(measured_s)

    def residuals(logs: Column) -> Column:
        predicted = np.log(steps(runs, Constants(logs), without).total)
        return np.concatenate([weights * (predicted - measured), (logs - PRIOR) / SPREAD])

    found = least_squares(residuals, PRIOR, loss="soft_l1", max_nfev=60)
    precision = found.jac.T @ found.jac
    return Fitted(Constants(found.x), np.sqrt(np.diag(np.linalg.inv(precision))))
