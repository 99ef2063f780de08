"""Calibrations shipped with Meshwright, one JSON document each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from meshwright.schema import Calibration, Plan, Request


@cache
def default_calibration() -> Calibration:
    """The calibration of an unmeasured cluster, from published measurements."""
    return published_calibration()


@cache
def datasheet_calibration() -> Calibration:
    """One share of the data sheet for all shapes and messages."""
    return _read("datasheet")


@cache
def published_calibration() -> Calibration:
    """Curves fitted to published products, collectives and steps."""
    return _read("published")


def shipped_calibration(id_: str) -> Calibration | None:
    """The shipped calibration with this id, or None; plan files and the store omit these."""
    calibrations = (load() for load in (datasheet_calibration, published_calibration))
    return next((calibration for calibration in calibrations if calibration.id == id_), None)


def calibration_for(request: Request) -> Calibration:
    """The calibration of a request, else the default."""
    return request.calibration or default_calibration()


def calibration_of(plan: Plan, given: Calibration | None) -> Calibration:
    """The calibration `given`, else the shipped one that the plan names, else the default."""
    return given or shipped_calibration(plan.calibration) or default_calibration()


def _read(name: str) -> Calibration:
    return Calibration.from_json(files(__name__).joinpath(f"{name}.json").read_bytes())
