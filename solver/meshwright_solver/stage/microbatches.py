"""Numbers of microbatches that a search tries."""

from __future__ import annotations

from meshwright.schema import Request, step_batch


def microbatch_counts(request: Request) -> list[int]:
    """The setup's own number, or 1, 2, 4, ... while the batch divides; from 2 in pairs."""
    setup = request.setup
    if setup.microbatches is not None:
        return [setup.microbatches]
    if setup.cache is not None:
        return [1]
    batch = step_batch(request.graph, setup) or 1
    counts: list[int] = [setup.least_copies]
    while batch % (2 * counts[-1]) == 0:
        counts.append(2 * counts[-1])
    return counts
