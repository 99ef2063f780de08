"""Cuts: how a user says the layout of a tensor, dim by dim.

A dim has the axes it is split over (`["dp"]`, or `"dp"` alone; a topology level means all of its
axes), or the number of equal parts (`4`; 1: whole), and then any axes of that size may do it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from meshwright.schema.mesh import Axis
from meshwright.schema.model import Whole


def _alone(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Cut = Annotated[Annotated[Whole, Field(ge=1)] | tuple[Axis, ...], BeforeValidator(_alone)]
Cuts = tuple[Cut, ...]


def axes_of(cuts: Cuts) -> tuple[Axis, ...]:
    """The axes that cuts name."""
    return tuple(axis for cut in cuts if not isinstance(cut, int) for axis in cut)


def counts_of(cuts: Cuts) -> tuple[int, ...]:
    """The numbers of parts that cuts name, 1 left out."""
    return tuple(cut for cut in cuts if isinstance(cut, int) and cut > 1)


def show_cuts(cuts: Cuts) -> str:
    """Cuts as people type them: `(dp,1,tp+cp)`."""
    shown = [str(cut) if isinstance(cut, int) else "+".join(cut) or "1" for cut in cuts]
    return f"({','.join(shown)}{',' if len(shown) == 1 else ''})"
