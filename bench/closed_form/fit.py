"""Constants from measured steps: what predicts them best (`meshwright_costmodel.least_squares`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.closed_form.constants import PRIOR, SPREAD, Constants
from bench.closed_form.runs import Column, Runs
from bench.closed_form.step import steps
from meshwright_costmodel.least_squares import fit_logs

# chosen: the noise between releases of one framework is 2 to 6 % (published rows of one source
# and one configuration), so a logarithm that is 0.06 off counts as much as a prior one spread off
NOISE = 0.06
# chosen: a source weighs as much as nine independent measurements, whatever number of rows it has,
# as what its rows get wrong together is not averaged out
MEASUREMENTS_A_SOURCE = 9.0
MAX_ROUNDS = 60  # chosen: some twenty do


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
    noise = NOISE / np.sqrt(MEASUREMENTS_A_SOURCE / counts[which])

    def predicted(logs: Column) -> Column:
        return np.log(steps(runs, Constants(logs), without).total)

    logs, spreads = fit_logs(
        predicted, np.log(measured_s), noise, PRIOR, SPREAD, max_rounds=MAX_ROUNDS
    )
    return Fitted(Constants(logs), spreads)
