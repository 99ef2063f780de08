"""Calibrations shipped with Meshwright, one JSON document each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from meshwright.schema import Calibration, Exposed, Plan, Request

_HIDDEN = (
    "parameter gathers and gradient reductions of a microbatch are assumed to hide behind "
    "computation, half of those of a step too."
)
_HALF_HIDDEN = (
    "half of the parameter gathers and gradient reductions is assumed to hide behind computation."
)


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


@cache
def half_exposed_calibration() -> Calibration:
    """The default before 26 November 2026: its objective counts half of all parameter and gradient
    traffic."""
    published = published_calibration()
    half = Exposed(activation=1.0, parameter=0.5, gradient=0.5)
    source = published.source.replace(_HIDDEN, _HALF_HIDDEN)
    return published.model_copy(update={"exposed": half, "source": source})


def shipped_calibration(id_: str) -> Calibration | None:
    """The shipped calibration with this id, or None; plan files and the store omit these."""
    shipped = (published_calibration, half_exposed_calibration, datasheet_calibration)
    calibrations = (load() for load in shipped)
    return next((calibration for calibration in calibrations if calibration.id == id_), None)


def calibration_for(request: Request) -> Calibration:
    """The calibration of a request, else the default."""
    return request.calibration or default_calibration()


def calibration_of(plan: Plan, given: Calibration | None) -> Calibration:
    """The calibration `given`, else the shipped one that the plan names, else the default."""
    return given or shipped_calibration(plan.calibration) or default_calibration()


def _read(name: str) -> Calibration:
    return Calibration.from_json(files(__name__).joinpath(f"{name}.json").read_bytes())
