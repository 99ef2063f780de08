"""Topologies, setups, meshes, layouts, requests and plans: what they are and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from meshwright.schema import (
    Axis,
    Calibration,
    Certificate,
    Cost,
    Dim,
    Graph,
    InvalidInput,
    Layout,
    LayoutError,
    LayoutPair,
    MemoryUse,
    Mesh,
    MeshAxis,
    Pin,
    Plan,
    PlanError,
    Request,
    RequestError,
    Search,
    Setup,
    SetupError,
    Stage,
    Step,
    SubDim,
    TensorPlan,
    Topology,
    TopologyError,
)

TOPOLOGY: dict[str, Any] = {
    "device": {
        "name": "toy", "memory_bytes": 1 << 30, "memory_bytes_per_s": 1e12,
        "flops_per_s": {"float32": 1e13, "bfloat16": 1e14},
    },
    "levels": [
        {"name": "node", "size": 2,
         "link": {"kind": "ib", "bytes_per_s": 1e10, "latency_ns": 5000, "devices_per_port": 4}},
        {"name": "gpu", "size": 4, "link": {"kind": "nv", "bytes_per_s": 1e11, "latency_ns": 1000}},
    ],
}  # fmt: skip


def with_level(**fields: Any) -> dict[str, Any]:
    levels = [{**TOPOLOGY["levels"][0], **fields}, TOPOLOGY["levels"][1]]
    return {**TOPOLOGY, "levels": levels}


def with_device(**fields: Any) -> dict[str, Any]:
    return {**TOPOLOGY, "device": {**TOPOLOGY["device"], **fields}}


def test_a_topology_counts_its_devices_and_shares_its_ports():
    topology = Topology.from_dict(TOPOLOGY)
    assert topology.device_count == 8
    assert topology.levels[0].link.device_bytes_per_s == 2.5e9
    assert Topology.from_json(topology.to_json()) == topology
    assert topology.device.peak_flops_per_s("float8_e4m3") == 1e14
    assert topology.device.peak_flops_per_s("int64") == 1e13


def mixed(**fields: Any) -> dict[str, Any]:
    """16 devices of another kind in one node, beside the 8."""
    link = {"kind": "ib", "bytes_per_s": 1e10, "latency_ns": 9000, "devices_per_port": 4}
    device = {**TOPOLOGY["device"], "name": "other"}
    level = {**TOPOLOGY["levels"][1], "size": 16}
    beside = {"device": device, "levels": [level], "uplink": link, **fields}
    return {**TOPOLOGY, "uplink": link, "beside": [beside]}


def test_a_mixed_topology_is_groups_of_one_kind_each():
    topology = Topology.from_dict(mixed())
    assert topology.device_count == 24
    assert [group.device_count for group in topology.groups] == [8, 16]
    assert [group.device.name for group in topology.groups] == ["toy", "other"]
    assert [group.beside for group in topology.groups] == [(), ()]
    assert Topology.from_json(topology.to_json()) == topology
    plain = Topology.from_dict(TOPOLOGY)
    assert plain.groups == (plain,)
    # what is new in topologies changes no id of one without it
    assert plain.id == "topo_a2c8a7454239d491c521fd1cb43f668ac056aa9939f2f8d3b5970a38036b7ce6"


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({**TOPOLOGY, "levels": []}, "1 to 8 levels, got 0"),
        (mixed(levels=[]), "1 to 8 levels, got 0"),
        (mixed(levels=[{**TOPOLOGY["levels"][1], "name": "a b"}]), "'a b' must be an identifier"),
        (mixed(levels=[{**TOPOLOGY["levels"][1], "size": 2**20}]), "got 1,048,584"),
        (mixed(uplink=None), "/beside/0/uplink"),
        (mixed(beside=[]), "/beside/0/beside"),
        ({**mixed(), "uplink": None}, "needs an uplink"),
        ({**mixed(), "beside": mixed()["beside"] * 4}, "at most 4 groups, got 5"),
        ({**TOPOLOGY, "levels": TOPOLOGY["levels"] * 5}, "1 to 8 levels, got 10"),
        (with_level(name="gpu"), "level 'gpu' is listed twice"),
        (with_level(name="two words"), "'two words' must be an identifier"),
        (with_level(name=""), "must be an identifier"),
        (with_level(size=0), "/levels/0/size"),
        ({**TOPOLOGY, "name": "red\x1b[31m"}, "512 printable characters"),
        (with_device(name="x" * 513), "/device/name: "),
        (with_level(size=2**20), "at most 1,048,576 devices, got 4,194,304"),
        (with_level(size=10**40), "at most 1,048,576 devices"),
        (with_level(link={"kind": "ib", "bytes_per_s": 0, "latency_ns": 1}), "bytes_per_s"),
        (with_level(link={"kind": "ib", "bytes_per_s": 1, "latency_ns": -1}), "latency_ns"),
        (with_level(link={"kind": "ib", "bytes_per_s": 1, "latency_ns": 10**400}), "latency_ns"),
        (with_device(flops_per_s={}), "device 'toy': flops_per_s needs at least float32"),
        (with_device(flops_per_s={"float32": -1}), "flops_per_s of float32 must be positive"),
        (with_device(flops_per_s={"float32": 1, "fp8": 1}), "unknown dtype 'fp8'"),
        (with_device(memory_bytes=0), "memory_bytes"),
        (with_device(memory_bytes=10**400), "memory_bytes"),
        (with_device(memory_bytes_per_s=float("inf")), "memory_bytes_per_s"),
        (with_device(flops_per_s={"float32": float("nan")}), "float32"),
        ({**TOPOLOGY, "colour": 1}, "/colour"),
        ({**TOPOLOGY, "schema_version": 2}, "/schema_version"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(document, names):
    with pytest.raises(TopologyError) as wrong:
        Topology.from_dict(document)
    assert names in wrong.value.detail


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"global_batch": 10, "microbatches": 3}, "10 cannot be cut into 3"),
        ({"global_batch": 0}, "/global_batch"),
        ({"microbatches": -1}, "/microbatches"),
        ({"memory_reserve": 1.0}, "/memory_reserve"),
        ({"memory_reserve": -0.1}, "/memory_reserve"),
        ({"optimizer": {"states": -1}}, "/optimizer/states"),
        ({"optimizer": {"states": 10**9}}, "/optimizer/states"),
        ({"optimizer": {"state_dtype": "text"}}, "/optimizer/state_dtype"),
        ({"phase": "dreaming"}, "/phase"),
        ({"symbols": {"seq": 1.5}}, "/symbols/seq"),
    ],
)
def test_a_setup_that_cannot_be_is_refused(document, names):
    with pytest.raises(SetupError) as wrong:
        Setup.from_dict(document)
    assert names in wrong.value.detail


def test_a_calibration_is_held_to_shares():
    good = {
        "name": "n", "source": "s", "link_efficiency": 0.8, "launch_ns": 10,
        "efficiency": {"matmul": 0.5, "convolution": 0.5, "attention": 0.5, "memory": 0.8},
        "exposed": {"activation": 1, "parameter": 0, "gradient": 0.5},
    }  # fmt: skip
    found = Calibration.from_dict(good)
    assert Calibration.from_json(found.to_json()).id == found.id
    for field, value in (("link_efficiency", 0), ("link_efficiency", 1.01), ("launch_ns", -1)):
        with pytest.raises(InvalidInput, match=field):
            Calibration.from_dict({**good, field: value})


# --- meshes and layouts --------------------------------------------------------------------------


def mesh(**sizes: int) -> Mesh:
    return Mesh(axes=tuple(MeshAxis(name=Axis(n), size=s, level="gpu") for n, s in sizes.items()))


def test_ranks_count_with_the_last_axis_fastest():
    found = mesh(a=2, b=3)
    assert (found.device_count, found.names) == (6, ("a", "b"))
    assert [found.coordinates(rank) for rank in (0, 1, 5)] == [
        {"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 1, "b": 2},
    ]  # fmt: skip
    assert found.groups(["b"]) == ((0, 1, 2), (3, 4, 5))
    assert found.groups(["a"]) == ((0, 3), (1, 4), (2, 5))
    assert found.groups(["a", "b"]) == ((0, 1, 2, 3, 4, 5),)
    assert found.groups([]) == tuple((rank,) for rank in range(6))
    assert found.size(["a", "b"]) == 6


def test_a_mesh_has_no_axis_twice_and_knows_its_own():
    axis = MeshAxis(name=Axis("a"), size=2, level="gpu")
    with pytest.raises(LayoutError, match="unique names"):
        Mesh(axes=(axis, axis))
    with pytest.raises(LayoutError, match="no axis 'z'; it has a, b"):
        mesh(a=2, b=2).groups(["z"])


def layout(*dims: Dim, **partial: str) -> Layout:
    return Layout(dims=dims, partial=partial)  # type: ignore[arg-type]  # names are axes


def dim(*parts: tuple[int, str], segments: tuple[int, ...] = ()) -> Dim:
    return Dim(
        parts=tuple(
            SubDim(size=size, axes=tuple(Axis(axis) for axis in axes.split()))
            for size, axes in parts
        ),
        segments=segments,
    )


def test_a_layout_knows_its_shape_and_that_of_a_shard():
    found = layout(dim((4, "a"), (6, "b")), dim((5, "")))
    assert found.shape == (24, 5)
    assert found.local_shape(mesh(a=2, b=3)) == (4, 5)
    assert str(found) == "[(4@a 6@b), 5]"
    assert str(layout(dim((4, "")), a="sum")) == "[4] +sum@a"


def test_segments_are_split_alike():
    # q 32, k 8, v 8: over 2 devices 16 + 4 + 4 each
    found = layout(dim((2, "a"), (24, ""), segments=(32, 8, 8)))
    assert found.shape == (48,)
    assert found.local_shape(mesh(a=2)) == (24,)


def test_a_layout_that_cannot_be_is_refused():
    with pytest.raises(LayoutError, match="axis 'a' is used twice"):
        layout(dim((4, "a")), dim((4, "a")))
    with pytest.raises(LayoutError, match="axis 'a' is used twice"):
        layout(dim((4, "a a")))
    with pytest.raises(LayoutError, match="axis 'a' is used twice"):
        layout(dim((4, "a")), a="sum")
    for segments in ((3, 5), (-2, 6), (0, 4)):
        with pytest.raises(LayoutError, match="do not add up to a dim of 4"):
            dim((4, ""), segments=segments)
    with pytest.raises(LayoutError, match=r"length 6, which cannot be split over a×b of size 4"):
        layout(dim((6, "a b"))).local_shape(mesh(a=2, b=2))
    with pytest.raises(LayoutError, match="no axis 'z'"):
        layout(dim((6, "z"))).local_shape(mesh(a=2))


def test_uneven_chunks():
    # 10 over 4: chunks of 3, the last of 1; over 6 of them with a span of 12 the last is empty
    even = SubDim(size=10, axes=("a",), span=12)
    assert [even.chunk(k, 4) for k in range(4)] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [even.chunk(k, 6) for k in (4, 5)] == [(8, 10), (10, 10)]
    own = SubDim(size=10, axes=("a",), chunks=(7, 0, 3))
    assert [own.chunk(k, 3) for k in range(3)] == [(0, 7), (7, 7), (7, 10)]
    assert own.longest(3) == 7
    found = Layout(dims=(Dim(parts=(even,)), dim((5, ""))))
    assert found.local_shape(mesh(a=4)) == (3, 5)
    assert str(found) == "[10<12@a, 5]"
    with pytest.raises(LayoutError, match="3 chunks and axes of size 2"):
        own.longest(2)
    with pytest.raises(LayoutError, match="Use a span longer"):
        SubDim(size=10, axes=("a",), span=10)
    with pytest.raises(LayoutError, match=r"\[7, 4\] do not add up to"):
        SubDim(size=10, axes=("a",), chunks=(7, 4))


# --- requests and plans --------------------------------------------------------------------------

GRAPH: dict[str, Any] = {
    "tensors": [{"name": "x", "shape": [8], "dtype": "float32", "role": "input"}],
    "ops": [],
    "outputs": ["x"],
}


def test_a_request_comes_back_from_json_as_it_was():
    request = Request.from_dict(
        {
            "graph": GRAPH,
            "topology": TOPOLOGY,
            "pins": [{"op": "*", "strategy": {"b": ["node"]}}],
            "budget": {"seconds": 5, "max_axes": 2},
        }
    )
    again = Request.from_json(request.to_json())
    assert again == request
    assert again.id == request.id != Request.from_dict({"graph": GRAPH, "topology": TOPOLOGY}).id


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"budget": {"seconds": 0}}, "/budget/seconds"),
        ({"budget": {"seconds": 1e9}}, "/budget/seconds"),
        ({"budget": {"max_axes": 5}}, "/budget/max_axes"),
        ({"pins": [{"op": "", "strategy": {}}]}, "/pins/0/op"),
        ({"pins": [{"op": "a"}]}, "pin 'a' states nothing"),
        ({"pins": [{"op": "a", "strategy": {}, "inputs": []}]}, "pin 'a' states two shardings"),
        ({"pins": [{"op": "a", "outputs": [], "data_parallel": True}]}, "states two shardings"),
        ({"pins": [{"op": "a", "inputs": [[0]]}]}, "/pins/0/inputs/0/0"),
        ({"pins": [{"op": "a", "inputs": [[True]]}]}, "/pins/0/inputs/0/0"),
        ({"constraints": {"slice_alignment": 0}}, "/constraints/slice_alignment"),
        ({"constraints": {"use_all": True}}, "/constraints/use_all"),
        ({"rest": "guess"}, "/rest"),
        ({"module": ""}, "/module"),
        ({"solver": "luck"}, "/solver"),
        ({"graph": None}, "/graph"),
    ],
)
def test_a_request_that_cannot_be_is_refused(change, names):
    with pytest.raises(RequestError) as wrong:
        Request.from_dict({"graph": GRAPH, "topology": TOPOLOGY, **change})
    assert names in wrong.value.detail


def test_a_pin_says_only_what_was_said():
    for said in (
        {"op": "a", "strategy": {}},
        {"op": "a", "inputs": [[8, ["dp", "cp"]], None], "outputs": [[1, 1]]},
        {"op": "a", "data_parallel": True},
    ):
        assert Pin.model_validate(said).model_dump(mode="json") == said
    assert Pin(op="a", inputs=(("dp", 1),)) == Pin(op="a", inputs=((("dp",), 1),))


def test_a_setup_says_how_inputs_are_loaded():
    cuts = Setup.from_dict({"dataset": [[8, "dp"], None]})
    assert cuts.dataset == ((8, ("dp",)), None)
    assert Setup.from_json(cuts.to_json()) == cuts
    assert Setup(dataset="any", allow_all_to_all=True).id == Setup().id != cuts.id
    with pytest.raises(SetupError, match="/dataset"):
        Setup.from_dict({"dataset": "some"})


def plan() -> Plan:
    split, whole = layout(dim((8, "a"))), layout(dim((8, "")))
    stage = Stage(
        mesh=mesh(a=2),
        ops=(),
        tensors=(TensorPlan(tensor="x", rest=LayoutPair(value=split, gradient=whole)),),
        parameters=(),
        redistributions=(),
    )
    cost = Cost(
        step_ns=1.5, objective_ns=1.5, compute_ns=1, communication_ns={"activation": 0.5},
        exposed_ns={"activation": 0.5}, memory_bytes=MemoryUse(activations=32, capacity=100),
    )  # fmt: skip
    search = Search(
        found_by="s",
        outcome="optimal",
        cost_ns=1.5,
        lower_bound_ns=1.5,
        gap=0,
        meshes=("a 2",),
    )
    return Plan(
        graph="graph_0", topology="topo_0", setup="setup_0", calibration="cal_0",
        stages=(stage,), cost=cost, search=search,
    )  # fmt: skip


def test_a_plan_comes_back_from_json_as_it_was():
    found = plan()
    again = Plan.from_json(found.to_json())
    assert again == found
    assert again.id == found.id
    assert json.loads(found.to_json())["stages"][0]["tensors"][0]["tensor"] == "x"
    assert found.cost.memory_bytes.total == 32


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"microbatches": 0}, "/microbatches"),
        ({"repeated_work": 1.5}, "/repeated_work"),
        ({"stages": [{}]}, "/stages/0/mesh"),
        ({"cost": None}, "/cost"),
        ({"surprise": 1}, "/surprise"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(change, names):
    with pytest.raises(PlanError) as wrong:
        Plan.from_dict({**plan().to_dict(), **change})
    assert names in wrong.value.detail


def test_a_step_has_no_negative_bytes_or_time():
    for bad in ({"payload_bytes": -1}, {"ns": -1.0}, {"kind": "telepathy"}):
        good = {"kind": "slice", "axes": ["a"], "payload_bytes": 0, "ns": 0, "to": {"dims": []}}
        with pytest.raises(InvalidInput, match=next(iter(bad))):
            Step.model_validate({**good, **bad})


@pytest.mark.parametrize("size", [True, 1.5, None, [1], {}])
def test_a_pointer_names_places_in_the_document_and_no_types(size: object):
    tensor = {"name": "x", "shape": [4, size], "dtype": "float32", "role": "input"}
    with pytest.raises(InvalidInput) as error:
        Graph.from_dict({"tensors": [tensor], "ops": [], "outputs": ["x"]})
    assert error.value.pointer == "/tensors/0/shape/1"
    assert error.value.detail.startswith("/tensors/0/shape/1: ")
    assert "or: Input should be a valid string, got " in error.value.detail


def test_a_field_that_is_missing_is_pointed_at():
    with pytest.raises(InvalidInput) as error:
        Topology.from_dict(with_device(memory_bytes=None))
    assert error.value.pointer == "/device/memory_bytes"
    without = {k: v for k, v in TOPOLOGY["device"].items() if k != "memory_bytes"}
    with pytest.raises(InvalidInput) as error:
        Topology.from_dict({**TOPOLOGY, "device": without})
    assert error.value.pointer == "/device/memory_bytes"


def test_to_be_verified_is_no_part_of_what_a_request_is():
    graph = {"tensors": [{"name": "x", "shape": [4], "dtype": "float32", "role": "input"}],
             "ops": [], "outputs": ["x"]}  # fmt: skip
    asked = {"graph": graph, "topology": TOPOLOGY}
    plain, verified = (Request.from_dict({**asked, "verify": wish}) for wish in (False, True))
    assert plain.id == verified.id == Request.from_dict(asked).id
    assert verified.to_dict()["verify"] is True
    with pytest.raises(RequestError) as error:
        Request.from_dict({**asked, "verify": 1})
    assert error.value.pointer == "/verify"


def test_a_certificate_says_no_more_than_a_list_can_carry():
    long = Certificate(plan="plan_0", outcome="failed", detail="x" * 5000)
    assert len(long.detail) == 2000
    assert long.detail.endswith("x…")
    assert Certificate.from_json(long.to_json()) == long
    exact = Certificate(plan="plan_0", outcome="failed", detail="x" * 2000)
    assert exact.detail == "x" * 2000
