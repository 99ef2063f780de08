"""Reasons for the answer that no pipeline configuration has a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshwright.schema import Infeasible, Request
from meshwright_solver.pipeline.candidates import Option


def closest(options: Sequence[Option]) -> Infeasible | None:
    """The reason of the refused option with the least shortfall; other cuts may fit."""

    def missed(why: Infeasible) -> float:
        if not why.needed_bytes or not why.available_bytes:
            return np.inf
        return why.needed_bytes / why.available_bytes

    refused = [
        (option.configuration, option.refused) for option in options if option.refused is not None
    ]
    if not refused:
        return None
    configuration, why = min(refused, key=lambda refusal: missed(refusal[1]))
    by = ""
    if why.needed_bytes and why.available_bytes:
        by = f" misses by {(why.needed_bytes - why.available_bytes) / 2**30:.2f} GiB"
    detail = f"no configuration found fits; closest: {configuration}{by}: {why.detail}"
    return why.model_copy(update={"detail": detail})


def nothing_fits(request: Request) -> Infeasible:
    groups = request.topology.groups
    sizes = [f"{group.device.memory_bytes / 2**30:.0f}" for group in groups]
    return Infeasible(
        constraint="memory",
        detail=(
            "no configuration found fits: no cuts were found that keep the memory of the devices "
            f"({' and '.join(sizes)} GiB each); more pipeline ranks or more microbatches may do"
        ),
        available_bytes=max(group.device.memory_bytes for group in groups),
    )
