"""A plan sliced by rank: by hand on the smallest model."""

from __future__ import annotations

import pytest

from meshwright.runtime import rank_strategy
from meshwright.schema import Graph, Pin, Plan, PlanError, Setup
from meshwright.schema.rank_strategy import Group
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

TENSORS = [
    {"name": "x", "shape": ["batch", 4], "dtype": "float32", "role": "input"},
    {"name": "w", "shape": [8, 4], "dtype": "float32", "role": "parameter"},
    {"name": "y", "shape": ["batch", 8], "dtype": "float32"},
    {"name": "loss", "shape": [], "dtype": "float32"},
]
OPS = [
    {"name": "up", "kind": "linear", "inputs": ["x", "w"], "outputs": ["y"]},
    {
        "name": "all", "kind": "sum", "inputs": ["y"], "outputs": ["loss"],
        "attrs": {"dims": [0, 1], "keepdim": False},
    },
]  # fmt: skip
GRAPH = Graph.from_dict(
    {"symbols": {"batch": 8}, "tensors": TENSORS, "ops": OPS, "outputs": ["loss"], "loss": "loss"}
)
DEVICES = topology(2, 2)
SETUP = Setup(global_batch=8, microbatches=2)


@pytest.fixture(scope="module")
def planned() -> Plan:
    """Rows over nodes, columns of the weight over the devices of a node."""
    pins = (
        Pin(op="up", strategy={"b0": ("node",), "n": ("gpu",)}),
        Pin(op="all", strategy={"d0": ("node",), "d1": ("gpu",)}),
    )
    request = toy_request(graph=GRAPH, topology=DEVICES, setup=SETUP, pins=pins)
    found = plan(request).plan
    assert found is not None
    return found


def test_a_rank_knows_where_it_is_and_what_it_loads(planned: Plan) -> None:
    # rank 2 is the first device of the second node; a microbatch has 4 rows
    found = rank_strategy(planned, GRAPH, SETUP, 2)
    (stage,) = found.stages
    assert (found.world_size, found.symbols, found.gradients) == (4, {"batch": 4}, "mean")
    assert stage.coordinates == {"node": 1, "gpu": 0}
    assert Group(axes=("node",), ranks=(0, 2)) in stage.groups
    assert Group(axes=("gpu",), ranks=(2, 3)) in stage.groups
    assert stage.local_shapes == {"w": (4, 4), "y": (2, 4), "loss": ()}
    (loaded,) = found.dataset
    assert (loaded.tensor, loaded.num_shards, loaded.shard_id) == ("x", (2, 1), (1, 0))


def test_a_rank_that_is_not_there_is_refused(planned: Plan) -> None:
    with pytest.raises(PlanError, match=r"the plan has no rank 4\. Use one of its 4 ranks, 0 to 3"):
        rank_strategy(planned, GRAPH, SETUP, 4)
    with pytest.raises(PlanError, match=r"made for the setup setup_\w+, this is setup_"):
        rank_strategy(planned, GRAPH, Setup(), 0)
