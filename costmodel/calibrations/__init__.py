"""Calibrations that come with Meshwright, one JSON document each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from meshwright.schema import Calibration


@cache
def default_calibration() -> Calibration:
    """What is assumed of a cluster on which nothing was measured."""
    return Calibration.from_json(files(__name__).joinpath("datasheet.json").read_bytes())
