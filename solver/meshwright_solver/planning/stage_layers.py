"""Layers of stages that a request states, as the cuts at which these stages begin.

Numbers that the request leaves open are equal. Ops before the first layer belong to the first
stage, ops after the last layer to the last one. Layers are found by structure
(`meshwright_solver.pipeline.layers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from meshwright.schema import Request, RequestError
from meshwright_solver.pipeline.anatomy_cache import anatomy_of
from meshwright_solver.pipeline.layers import layer_begins


def with_stage_layers(request: Request) -> Request:
    """The request with cuts in place of stated layers.

    Raises RequestError for numbers that are not those of the graph's layers.
    """
    if not request.pipeline.layers:
        return request
    anatomy = anatomy_of(request.graph, training=request.setup.phase == "training")
    begins = layer_begins(anatomy).tolist()
    counts = _counts(request.pipeline.layers, len(begins))
    names = [anatomy.order[begins[first]].name for first in accumulate(counts[:-1])]
    pipeline = request.pipeline.model_copy(update={"layers": (), "cuts": tuple(names)})
    return request.model_copy(update={"pipeline": pipeline})


def _counts(stated: Sequence[int | None], layers: int) -> list[int]:
    """The number of layers of every stage."""
    known = sum(count for count in stated if count is not None)
    open_stages = stated.count(None)
    left = layers - known
    if not layers:
        raise _error("the graph has no layers that repeat. Use cuts")
    if not open_stages and left:
        raise _error(f"the stages have {known} layers, the graph has {layers}")
    if open_stages and (left < open_stages or left % open_stages):
        raise _error(
            f"{left} of {layers} layers are left for {open_stages} stages, which cannot have "
            "equally many. Use other numbers for the stages that state one"
        )
    return [left // open_stages if count is None else count for count in stated]


def _error(message: str) -> RequestError:
    return RequestError(message, pointer="/pipeline/layers")
