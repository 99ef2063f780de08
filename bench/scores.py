"""How good predictions are: errors of time, and of the order of strategies in a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

Column = NDArray[np.float64]
MIN_GROUP = 3


@dataclass(frozen=True, slots=True)
class Score:
    """Percent, but for rows and tau. anchored: after one constant for the source.

    median: signed. tau: Kendall's, regret: of the strategy predicted fastest against the fastest
    measured; means over rank groups, NaN without any.
    """

    rows: int
    mape: float
    anchored: float
    median: float
    tau: float
    regret: float


def score(predicted: Column, measured: Column, groups: Sequence[str]) -> Score:
    """Of the rows of one source."""
    ratio = predicted / measured
    taus, regrets = [], []
    names = np.array(groups)
    for name in sorted(set(groups) - {""}):
        own = names == name
        if own.sum() < MIN_GROUP:
            continue
        taus.append(float(kendalltau(measured[own], predicted[own]).statistic))
        regrets.append(float(measured[own][predicted[own].argmin()] / measured[own].min() - 1))
    return Score(
        rows=len(ratio),
        mape=_percent(np.abs(ratio - 1).mean()),
        anchored=_percent(np.abs(ratio / anchor(predicted, measured) - 1).mean()),
        median=_percent(np.median(ratio) - 1),
        tau=float(np.mean(taus)) if taus else float("nan"),
        regret=_percent(float(np.mean(regrets))) if regrets else float("nan"),
    )


def anchor(predicted: Column, measured: Column) -> float:
    """What predictions are divided by so that half are too long."""
    return float(np.median(predicted / measured))


def _percent(share: float) -> float:
    return 100 * float(share)
