"""Calibrations that come with Meshwright, one JSON document each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from meshwright.schema import Calibration, Plan, Request


@cache
def default_calibration() -> Calibration:
    """What is assumed of a cluster on which nothing was measured: what others published."""
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
    """One of these by its id: a plan names it, a plan file leaves it out, and nobody stores it."""
    found = (made() for made in (datasheet_calibration, published_calibration))
    return next((own for own in found if own.id == id_), None)


def calibration_for(request: Request) -> Calibration:
    """What a request brings, or else the default."""
    return request.calibration or default_calibration()


def calibration_of(plan: Plan, given: Calibration | None) -> Calibration:
    """What is given, or what the plan names of these, or else the default."""
    return given or shipped_calibration(plan.calibration) or default_calibration()


def _read(name: str) -> Calibration:
    return Calibration.from_json(files(__name__).joinpath(f"{name}.json").read_bytes())
