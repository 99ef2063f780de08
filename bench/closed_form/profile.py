"""Fitted constants as a document: values, how sure, from which measurements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from bench.closed_form.constants import CONSTANTS, Constants
from bench.closed_form.fit import Fitted


@dataclass(frozen=True, slots=True)
class Profile:
    """spreads: standard deviations of logarithms by name. residuals: MAPE by source, percent."""

    name: str
    source: str
    values: Mapping[str, float]
    spreads: Mapping[str, float]
    residuals: Mapping[str, float]

    @classmethod
    def of(cls, name: str, source: str, fitted: Fitted, residuals: Mapping[str, float]) -> Profile:
        values = {own.name: _short(fitted.constants[own.name]) for own in CONSTANTS}
        spreads = {
            own.name: _short(float(spread))
            for own, spread in zip(CONSTANTS, fitted.spreads, strict=True)
        }
        return cls(name, source, values, spreads, {k: round(v, 2) for k, v in residuals.items()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Profile:
        """ValueError for a document that is not a profile, or lacks a constant."""
        try:
            found = json.loads(text)
            own = cls(
                str(found["name"]), str(found["source"]),
                {each.name: float(found["constants"][each.name]["value"]) for each in CONSTANTS},
                {each.name: float(found["constants"][each.name]["spread"]) for each in CONSTANTS},
                {str(key): float(value) for key, value in found["residuals_percent"].items()},
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a profile needs {error}") from None
        if not all(np.isfinite(value) and value > 0 for value in own.values.values()):
            raise ValueError("a profile's constants are positive numbers")
        return own

    def to_json(self) -> str:
        constants = {
            own.name: {
                "value": self.values[own.name],
                "spread": self.spreads[own.name],
                "prior": own.prior,
                "prior_spread": own.spread,
                "meaning": own.meaning,
                "prior_source": own.source,
            }
            for own in CONSTANTS
        }
        document = {
            "schema_version": 1,
            "name": self.name,
            "source": self.source,
            "residuals_percent": dict(self.residuals),
            "constants": constants,
        }
        return json.dumps(document, indent=1) + "\n"

    @property
    def id(self) -> str:
        """Of its constants: equal values, equal id."""
        text = json.dumps(dict(sorted(self.values.items()))).encode()
        return f"{self.name}@{hashlib.sha256(text).hexdigest()[:12]}"

    @property
    def constants(self) -> Constants:
        return Constants.of(self.values)


def published_profile() -> Profile:
    """The constants fitted to published steps (bench/data/README.md)."""
    return Profile.from_json(files("bench.closed_form").joinpath("published.json").read_bytes())


def _short(value: float) -> float:
    return float(f"{value:.5g}")
