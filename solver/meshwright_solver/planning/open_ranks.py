"""The number of pipeline ranks of requests that leave it open."""

from __future__ import annotations

from meshwright.schema import Pipeline, Request
from meshwright.schema.pipeline import NO_PIPELINE


def with_ranks(request: Request) -> Request:
    """The request, without a pipeline where its other options rule pipelines out.

    Stated degrees need a number of ranks; the default is 1. Pipelines are not planned for
    inference, for interleaved microbatches, and for offload on several kinds of devices.
    """
    if request.pipeline != Pipeline():
        return request
    is_ruled_out = (
        request.degrees is not None
        or request.setup.phase != "training"
        or request.setup.least_copies > 1
        or (bool(request.topology.beside) and request.constraints.offload != "none")
    )
    return request.model_copy(update={"pipeline": NO_PIPELINE}) if is_ruled_out else request
