"""Cuts: the layout of a tensor as a user states it, dim by dim.

A cut is one of two:

    axes     the axes that shard the dim: `["dp"]`, or `"dp"` alone; a topology level stands for all
             of its axes
    number   the number of equal parts, over any axes of that size; 1 for an unsharded dim
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from meshwright.schema.mesh import Axis
from meshwright.schema.model import Whole


def _single_axis(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Cut = Annotated[Annotated[Whole, Field(ge=1)] | tuple[Axis, ...], BeforeValidator(_single_axis)]
Cuts = tuple[Cut, ...]


def axes_of(cuts: Cuts) -> tuple[Axis, ...]:
    """The axes that cuts name."""
    return tuple(axis for cut in cuts if not isinstance(cut, int) for axis in cut)


def counts_of(cuts: Cuts) -> tuple[int, ...]:
    """The numbers of parts in cuts, without 1."""
    return tuple(cut for cut in cuts if isinstance(cut, int) and cut > 1)


def show_cuts(cuts: Cuts) -> str:
    """Cuts in the notation of the command line: `(dp,1,tp+cp)`."""
    terms = [str(cut) if isinstance(cut, int) else "+".join(cut) or "1" for cut in cuts]
    return f"({','.join(terms)}{',' if len(terms) == 1 else ''})"
