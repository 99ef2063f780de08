"""Calibrations shipped with Meshwright, one JSON document each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from meshwright.schema import Calibration, Exposed, Plan, Request
from meshwright.schema.curves import DeviceCurves
from meshwright.schema.stack import STACKS, Stack, attention_ratio, stack_ratios
from meshwright_costmodel.anchoring import anchored

_NEWER = re.compile(r"NVIDIA [HB]\d")  # devices with kernels of their own: Hopper and Blackwell
HIDDEN = (
    "parameter gathers and gradient reductions of a microbatch are assumed to hide behind "
    "computation, half of those of a step too."
)
HALF_HIDDEN = (
    "half of the parameter gathers and gradient reductions is assumed to hide behind computation."
)
# chosen: traffic that a step hides costs a search little, but not nothing
EXPOSED = Exposed(activation=1.0, parameter=0.05, gradient=0.05, once=0.5)


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
def first_published_calibration() -> Calibration:
    """The default until 27 November 2026, whose shares of large shapes another model was fitted
    to: plans that name it are read and judged by it."""
    return _read("published-2026-11-26")


@cache
def stack_calibration(stack: Stack) -> Calibration:
    """The published calibration for a software stack: its kernels, and all times by its ratio.

    Raises SetupError for an unknown stack.
    """
    return anchored(with_kernels_of(stack), stack_ratios(stack), stack)


@cache
def with_kernels_of(stack: Stack) -> Calibration:
    """The published calibration with a stack's kernels, before its ratio."""
    return with_kernels(published_calibration(), stack)


def with_kernels(calibration: Calibration, stack: Stack) -> Calibration:
    """A calibration with a stack's kernels."""
    ratio = attention_ratio(stack)
    if ratio == 1.0:
        return calibration
    curves = tuple(_slower_attention(own, ratio) for own in calibration.curves)
    return calibration.model_copy(update={"curves": curves})


def _slower_attention(curves: DeviceCurves, ratio: float) -> DeviceCurves:
    """The curves with slower attention, of NVIDIA's devices newer than A100."""
    if not _NEWER.search(curves.device):
        return curves
    share = curves.attention.share
    return curves.like(attention=curves.attention.like(share=share.like(value=share.value / ratio)))


@cache
def half_exposed_calibration() -> Calibration:
    """The default before 26 November 2026: its objective counts half of all parameter and gradient
    traffic."""
    published = first_published_calibration()
    half = Exposed(activation=1.0, parameter=0.5, gradient=0.5)
    source = published.source.replace(HIDDEN, HALF_HIDDEN)
    return published.model_copy(update={"exposed": half, "source": source})


def shipped_calibration(id_: str) -> Calibration | None:
    """The shipped calibration with this id, or None; plan files and the store omit these."""
    return next((each for each in _shipped() if each.id == id_), None)


def _shipped() -> Iterator[Calibration]:
    yield published_calibration()
    yield first_published_calibration()
    yield half_exposed_calibration()
    yield datasheet_calibration()
    for stack in STACKS:
        yield with_kernels_of(stack)
        yield stack_calibration(stack)


def calibration_for(request: Request) -> Calibration:
    """The calibration of a request, else that of its stack, else the default."""
    if request.calibration is not None:
        return request.calibration
    stack = request.setup.stack
    return default_calibration() if stack is None else stack_calibration(stack)


def calibration_of(plan: Plan, given: Calibration | None) -> Calibration:
    """The calibration `given`, else the shipped one that the plan names, else the default."""
    return given or shipped_calibration(plan.calibration) or default_calibration()


def _read(name: str) -> Calibration:
    return Calibration.from_json(files(__name__).joinpath(f"{name}.json").read_bytes())
