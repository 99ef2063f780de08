"""What searches share where they are handed to: made once for each request, of a few at a time."""

from __future__ import annotations

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.shared_context import KEPT, Searches, SharedContext
from meshwright_solver.pipeline.stage_graph import Anatomy
from tests.solver.layered import layered
from tests.solver.pipeline.test_parallel_map import FREE, Elsewhere
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology


def made(shared: SharedContext, ops: int, _: Deadline) -> int:
    """Which estimator works there; it is of the request that was handed over."""
    assert len(shared.request.graph.ops) == ops
    return id(shared.estimator)


def test_requests_in_turns_are_unpacked_once_each() -> None:
    there = Elsewhere()
    searches = []
    for layers in range(1, 1 + KEPT):
        request = toy_request(graph=layered(layers), topology=topology(2, 2))
        searches.append(Searches(SharedContext(request, Anatomy(request.graph)), there))
    rounds = [
        [own.begun(made, len(own.shared.request.graph.ops), FREE)() for own in searches]
        for _ in range(3)
    ]
    assert rounds[0] == rounds[1] == rounds[2]
    assert len(set(rounds[0])) == KEPT
