"""A view of a plan: what is worked out from it and the documents that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.stored import Parts


@dataclass(frozen=True, slots=True)
class View:
    """made: of plan, graph, topology, setup and calibration as they are stored, by these names, the
    packed parts; a function of a module. name: with its version: another one for every change of
    what comes of the same documents."""

    name: str
    made: Callable[[Mapping[str, bytes]], Parts]
