"""Autocast around a step of a plan, whose casts are ops of its graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from meshwright.capture.precision import AUTOCAST_DTYPES
from meshwright.schema import Graph, PlanError


def autocast_dtypes(graph: Graph) -> set[torch.dtype]:
    """The dtypes to which a graph casts float32 parameters, as autocast does."""
    parameters = {t.name for t in graph.tensors if t.role == "parameter" and t.dtype == "float32"}
    casts = [op for op in graph.ops if op.kind == "cast" and not parameters.isdisjoint(op.inputs)]
    dtypes = {graph.tensor(op.outputs[0]).dtype for op in casts}
    return {AUTOCAST_DTYPES[dtype] for dtype in dtypes if dtype in AUTOCAST_DTYPES}


@contextmanager
def casts_of_graph(graph: Graph, device: torch.device) -> Iterator[None]:
    """A context without autocast, so that the casts of the graph are the only ones.

    Raises PlanError in an autocast region whose casts the graph lacks.
    """
    kind = device.type
    if not torch.is_autocast_enabled(kind):
        yield
        return
    dtype = torch.get_autocast_dtype(kind)
    if dtype not in autocast_dtypes(graph):
        name = str(dtype).removeprefix("torch.")
        raise PlanError(
            f"the step is called in an autocast region of {name}, and the plan's graph {graph.id} "
            f"has no casts to {name}. Call the step outside the region, or capture with "
            f"`--autocast {name}` and plan again"
        )
    with torch.autocast(kind, enabled=False):
        yield
