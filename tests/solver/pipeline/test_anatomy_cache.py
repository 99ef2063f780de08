"""Searches that share a graph with earlier ones find the same plans as a first search."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshwright.capture.decoder import decoder_graph
from meshwright.plugins.planner import preset
from meshwright.schema import Budget, Graph, Request, Setup
from meshwright_solver.pipeline.anatomy_cache import anatomy_of, with_known_graph
from meshwright_solver.planning.planner import plan
from tests.small_decoder import DECODER


def in_new_thread(request: Request) -> str:
    """The plan of a search whose caches are empty: they belong to a thread."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(planned, request).result()


def planned(request: Request) -> str:
    answer = plan(request)
    if answer.plan is None:
        assert answer.infeasible is not None
        return answer.infeasible.to_json()
    return answer.plan.to_json()


def requests(seed: int) -> list[Request]:
    """Requests of one graph that differ in what plans depend on."""
    rng = np.random.default_rng(seed)
    text = decoder_graph(replace(DECODER, kv_heads=int(rng.choice([2, 8]))), batch=32, seq=512)
    found = []
    for _ in range(3):
        fields: dict[str, Any] = {
            "global_batch": int(rng.choice([16, 32, 64])),
            "symbols": {"seq": int(rng.choice([256, 512]))},
            "memory_reserve": float(rng.choice([0.1, 0.3])),
        }
        target = [None, "megatron-core", "fsdp2"][int(rng.integers(3))]
        topology = str(rng.choice(["h100-1x4", "h100-2x2", "a100-80g-1x4", "b200-1x2"]))
        found.append(
            Request(
                graph=Graph.from_json(text.to_json()),
                topology=preset(topology),
                setup=Setup(**fields),
                target=target,  # type: ignore[arg-type]
                budget=Budget(seconds=None, max_axes=2),
            )
        )
    return found


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(5))
def test_a_later_search_of_the_graph_finds_the_plan_of_a_first_one(seed: int) -> None:
    wanted = requests(seed)
    later = [planned(request) for request in wanted]
    assert later == [in_new_thread(request) for request in wanted]


def test_equal_graphs_have_one_anatomy() -> None:
    graph = decoder_graph(DECODER, batch=32, seq=512)
    again = Graph.from_json(graph.to_json())
    assert anatomy_of(again) is anatomy_of(graph)
    request = Request(graph=again, topology=preset("h100-1x4"))
    assert with_known_graph(request).graph is anatomy_of(graph).graph


def test_a_large_graph_is_not_kept() -> None:
    graph = decoder_graph(replace(DECODER, layers=1000), batch=8, seq=128)
    assert len(graph.ops) > 20_000
    assert anatomy_of(graph) is not anatomy_of(graph)
    assert with_known_graph(Request(graph=graph, topology=preset("h100-1x4"))).graph is graph
