"""The points of a sweep, and the request of each."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from meshwright.plugins.planner import preset
from meshwright.schema import Graph, InvalidInput, RequestError, Setup, Topology
from meshwright.schema.sweep import MAX_POINTS, Sweep
from meshwright.sweeps import points_of, request_of
from meshwright.sweeps.points import topologies_of
from tests.service.samples import GRAPH, TOPOLOGY


def test_points_are_all_combinations_the_first_axis_slowest() -> None:
    sweep = Sweep(
        topologies=("h100-{1,2}x8", "b200-1x8"),
        batches=(8, 16),
        sequences=(32,),
        precisions=("graph", "mxfp8"),
        targets=(None, "torchtitan"),
    )
    names = ("h100-1x8", "h100-2x8", "b200-1x8")
    wanted = product(names, (8, 16), (32,), ("graph", "mxfp8"), (None, "torchtitan"))
    fields = ("topology", "batch", "sequence", "precision", "target")
    found = [tuple(getattr(point, field) for field in fields) for point in points_of(sweep)]
    assert found == list(wanted)


def test_an_empty_axis_leaves_the_setup_alone_and_repeats_are_one_point() -> None:
    sweep = Sweep(topologies=("h100-1x8", "h100-{1,1}x8"), setup=Setup(global_batch=4))
    (point,) = points_of(sweep)
    graph = Graph.from_dict(GRAPH)
    request = request_of(sweep, point, graph, {"h100-1x8": preset("h100-1x8")})
    assert request.setup == Setup(global_batch=4)
    assert request.target is None


def test_a_point_is_the_request_that_the_same_options_make() -> None:
    sweep = Sweep(topologies=("h100-1x8",), batches=(16,), sequences=(64,), targets=("fsdp2",))
    (point,) = points_of(sweep)
    request = request_of(sweep, point, Graph.from_dict(GRAPH), {"h100-1x8": preset("h100-1x8")})
    assert request.setup.global_batch == 16
    assert request.setup.symbols == {"seq": 64}
    assert (request.target, request.setup.stack) == ("fsdp2", "torchtitan")
    assert not request.budget.unrestricted  # points without a target are for that


def test_two_documents_of_one_name_are_two_topologies() -> None:
    first = Topology.from_dict(TOPOLOGY)
    other = first.model_copy(update={"source": "another"})
    sweep = Sweep(topologies=(first, other, first))
    assert list(topologies_of(sweep)) == ["two by four", other.id]
    assert len(points_of(sweep)) == 2


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"topologies": ()}, "/topologies"),
        ({"topologies": ("h100-{1x8",)}, "/topologies/0"),
        ({"batches": (0,)}, "/batches/0"),
        ({"batches": (8,), "setup": {"global_batch": 8}}, "/batches"),
        ({"sequences": (8,), "setup": {"symbols": {"seq": 8}}}, "/sequences"),
        ({"targets": (None,), "target": "fsdp2"}, "/targets"),
        ({"targets": ("fsdp3",)}, "/targets/0"),
        ({"prices": {"h100": -1.0}}, "/prices/h100"),
        ({"tokens": 0}, "/tokens"),
        ({"batches": tuple(range(1, 200)), "sequences": tuple(range(1, 200))}, "/topologies"),
    ],
)
def test_what_is_no_sweep_is_refused_with_its_place(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        points_of(Sweep.from_dict({"topologies": ["h100-1x8"], **fields}))
    assert refused.value.pointer == pointer


def test_a_target_beside_pins_is_refused_point_by_point() -> None:
    sweep = Sweep.from_dict(
        {"topologies": ["h100-1x8"], "targets": [None, "fsdp2"], "module": "layers.0"}
    )
    free, pinned = points_of(sweep)
    topologies = {"h100-1x8": preset("h100-1x8")}
    assert request_of(sweep, free, Graph.from_dict(GRAPH), topologies).module == "layers.0"
    with pytest.raises(RequestError, match="fsdp2"):
        request_of(sweep, pinned, Graph.from_dict(GRAPH), topologies)


def test_the_limit_is_on_points() -> None:
    assert len(points_of(Sweep(topologies=("h100-1x8",), batches=tuple(range(1, 201))))) == 200
    sweep = Sweep(topologies=("h100-{1,2,4}x8",), batches=tuple(range(1, 201)))
    with pytest.raises(RequestError, match=f"600 points, at most {MAX_POINTS}"):
        points_of(sweep)
