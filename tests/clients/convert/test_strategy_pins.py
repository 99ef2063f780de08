"""Strategies of stored plans and of MindSpore's files as pins of another search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.convert import (
    OpName,
    StrategyFile,
    network_of,
    pins_of_plan,
    pins_of_strategies,
    read_strategy_file,
    strategies_of_json,
)
from meshwright.schema import ConversionError, Graph, Pin, Plan, RequestError
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan as find_plan
from tests.clients.conftest import Run
from tests.mindspore.cases import CALIBRATION, CASES, SETUP, graph_of, network, planned
from tests.one_stage import one_stage_request

QUICK = [name for name in CASES if not name.startswith("gpt")]


def searched(name: str, pins: tuple[Pin, ...]) -> Plan:
    """The plan of another search for a case, with pins alone."""
    request = one_stage_request(
        graph=graph_of(CASES[name].model),
        topology=preset("910b-1x8"),
        setup=SETUP,
        calibration=CALIBRATION,
        pins=pins,
    )
    plan = find_plan(request).plan
    assert plan is not None
    return plan


@pytest.mark.parametrize("name", [*QUICK, pytest.param("gpt-dp2-tp4", marks=pytest.mark.long)])
def test_an_exported_strategy_file_is_read_to_the_same_strategies(name: str) -> None:
    graph = graph_of(CASES[name].model)
    file = strategies_of_json(network(name).strategy_file())
    plan = searched(name, pins_of_strategies(file, graph).pins)
    again = network_of(plan, graph, SETUP)
    for path, own in network(name).primitives.items():
        assert again.primitives[path].in_strategy == own.in_strategy, path
        assert again.primitives[path].out_strategy == own.out_strategy, path


@pytest.mark.parametrize("name", QUICK)
def test_a_plan_is_the_start_of_a_search_that_keeps_its_strategies(name: str) -> None:
    graph = graph_of(CASES[name].model)
    imported = pins_of_plan(planned(name), graph)
    assert not imported.remarks
    plan = searched(name, imported.pins)
    assert pins_of_plan(plan, graph).pins == imported.pins
    assert plan.cost.step_ns <= planned(name).cost.step_ns * (1 + 1e-9)


def decoder(layers: int) -> Graph:
    """Layers of two products; the last layer is as the others are."""
    tensors: list[dict[str, Any]] = [
        {"name": "x0", "shape": ["batch", 64], "dtype": "bfloat16", "role": "input"}
    ]
    ops = []
    for layer in range(layers):
        for name, shape in (("up", [256, 64]), ("down", [64, 256])):
            path = f"layers.{layer}.{name}"
            source = f"x{layer}" if name == "up" else f"layers.{layer}.up:out"
            result = f"x{layer + 1}" if name == "down" else f"{path}:out"
            tensors += [
                {"name": f"{path}.weight", "shape": shape, "dtype": "bfloat16",
                 "role": "parameter"},
                {"name": result, "shape": ["batch", shape[0]], "dtype": "bfloat16"},
            ]  # fmt: skip
            ops.append({
                "name": path, "kind": "linear", "module": path,
                "inputs": [source, f"{path}.weight"], "outputs": [result],
            })  # fmt: skip
    return Graph.from_dict({
        "symbols": {"batch": 64}, "tensors": tensors, "ops": ops, "outputs": [f"x{layers}"],
    })  # fmt: skip


WAYS = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_pins_of_a_plan_hold_for_exactly_the_ops_that_had_them(data: st.DataObject) -> None:
    graph = decoder(3)
    cuts = {}
    for op in graph.ops:
        ways = data.draw(WAYS)
        dim = data.draw(st.sampled_from(["b", "n"]))
        cuts[op.name] = ((ways, 1), (1, 1)) if dim == "b" else ((1, 1), (ways, 1))
    pins = tuple(Pin(op=name, inputs=inputs) for name, inputs in cuts.items())
    plan = find_plan(one_stage_request(graph=graph, topology=preset("h100-1x8"), pins=pins)).plan
    assert plan is not None
    keep = data.draw(st.sampled_from(["*", "layers.1.*", "*.up"]))
    imported = pins_of_plan(plan, graph, keep=[keep])
    again = find_plan(
        one_stage_request(graph=graph, topology=preset("h100-1x8"), pins=imported.pins)
    ).plan
    assert again is not None
    found = {op.op: op for op in again.stages[0].ops}
    kept = [op.name for op in graph.ops if keep == "*" or keep.strip("*") in op.name]
    assert kept
    for name in kept:
        (pin,) = pins_of_plan(again, graph, keep=[name]).pins
        assert pin.inputs == cuts[name], (name, found[name].strategy)


def test_degrees_of_a_larger_cluster_are_refused_by_name(run: Run, tmp_path: Path) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(decoder(2).to_dict()))
    wide = tmp_path / "plan.json"
    made = run(
        "plan", graph, "--topology", "h100-1x8", "--pipeline", "none", "-o", wide,
        "--pin", "*.up:((8,1),(1,1))", "--pin", "*.down:((2,1),(1,1))",
    )  # fmt: skip
    assert made.code == 0, made.err
    small = ("--topology", "h100-1x4", "--pipeline", "none")
    refused = run("plan", graph, *small, "--from-plan", wide)
    assert refused.code == 2
    assert "'layers.0.up': (8,1) cuts it into 8 parts, there are 4 devices. Use" in refused.err
    kept = run("plan", graph, *small, "--from-plan", wide, "--keep", "*.down")
    assert kept.code == 0, kept.err
    assert "layers.*.down:((2,1),(1,1))" in kept.out
    none = run("plan", graph, *small, "--from-plan", wide, "--keep", "nothing*")
    assert "--keep 'nothing*' matches no op" in none.err
    assert run("plan", graph, *small, "--keep", "*").code == 2


def protobuf_of(strategies: Mapping[str, tuple[tuple[int, ...], ...]]) -> bytes:
    """A file as MindSpore writes it: its schema in the text of descriptors, with a layout item."""
    file = descriptor_pb2.FileDescriptorProto(name="n.proto", package="p", syntax="proto2")

    def message(name: str, *fields: tuple[str, int, int, str]) -> None:
        added = file.message_type.add(name=name)
        for field, number, label, kind in fields:
            scalar = {"uint32": 13, "string": 9}.get(kind)
            added.field.add(
                name=field, number=number, label=label, type=scalar or 11,
                type_name=None if scalar else f".p.{kind}",
            )  # fmt: skip

    message("Dims", ("dim", 1, 3, "uint32"))
    message("Cuts", ("stage", 1, 2, "uint32"), ("each", 2, 3, "Dims"))
    message("Item", ("node_name", 1, 2, "string"), ("cuts", 2, 2, "Cuts"))
    message("Layout", ("param_name", 1, 2, "string"))
    message("All", ("stage", 1, 2, "uint32"), ("items", 2, 3, "Item"), ("layouts", 3, 3, "Layout"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    content = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.All"))(stage=0)
    content.layouts.add(param_name="w")
    for name, inputs in strategies.items():
        item = content.items.add(node_name=name)
        item.cuts.stage = 0
        for dims in inputs:
            item.cuts.each.add(dim=dims)
    data: bytes = content.SerializeToString()
    return data


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=20),
        st.lists(st.lists(st.integers(1, 4096), max_size=4).map(tuple), max_size=3).map(tuple),
        min_size=1,
        max_size=5,
    )
)
def test_both_forms_of_the_file_say_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    strategies: dict[str, tuple[tuple[int, ...], ...]],
) -> None:
    folder = tmp_path_factory.mktemp("strategies")
    (folder / "s.ckpt").write_bytes(protobuf_of(strategies))
    items = {name: {"parallel_strategy": cuts, "stage": 0} for name, cuts in strategies.items()}
    (folder / "s.json").write_text(
        json.dumps({"current_stage": 0, "parallel_strategy_item": items})
    )
    found = read_strategy_file(folder / "s.ckpt")
    assert found == read_strategy_file(folder / "s.json")
    assert {name: own.inputs for name, own in found.operators.items()} == strategies


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff\xfe\x00", b'{"parallel_strategy_item": 3}']
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "strategies.ckpt"
    path.write_bytes(content)
    with pytest.raises(ConversionError, match="is not a strategy file of MindSpore"):
        read_strategy_file(path)


def strategies(**operators: tuple[tuple[int, ...], ...]) -> StrategyFile:
    return strategies_of_json(
        {
            "parallel_strategy_item": {
                name.replace("__", "/"): {"parallel_strategy": cuts, "stage": 0}
                for name, cuts in operators.items()
            }
        }
    )


def test_a_mapping_names_the_ops_of_a_network_of_another_framework() -> None:
    file = strategies(
        Default__layers_0_Up__MatMul=((4, 1), (1, 2)),
        Default__layers_1_Up__MatMul=((4, 1), (1, 2)),
        Default__layers_2_Up__MatMul=((8, 1), (1, 1)),
        Default___VirtualDataset=((8, 1),),
    )
    names = {"Default/layers_*_Up/MatMul": OpName(op="layers.*.up", transposed=(1,))}
    pins = pins_of_strategies(file, decoder(3), names=names).pins
    assert {pin.op: pin.inputs for pin in pins} == {
        "layers.0.up": ((4, 1), (2, 1)),
        "layers.1.up": ((4, 1), (2, 1)),
        "layers.2.up": ((8, 1), (1, 1)),
    }
    with pytest.raises(RequestError, match="no op for 'Default/layers_0_Up/MatMul'"):
        pins_of_strategies(file, decoder(3))
    with pytest.raises(RequestError, match=r"named .blocks\.0\.up."):
        pins_of_strategies(
            file, decoder(3), names={"Default/layers_*_Up/MatMul": OpName(op="blocks.*.up")}
        )


def test_a_flattened_batch_is_cut_from_the_outside() -> None:
    tensors = [
        {"name": "x", "shape": [4, 6, 64], "dtype": "bfloat16", "role": "input"},
        {"name": "w", "shape": [64, 64], "dtype": "bfloat16", "role": "parameter"},
        {"name": "y", "shape": [4, 6, 64], "dtype": "bfloat16"},
    ]
    ops = [{"name": "q", "kind": "linear", "inputs": ["x", "w"], "outputs": ["y"]}]
    graph = Graph.from_dict({"tensors": tensors, "ops": ops, "outputs": ["y"]})
    (pin,) = pins_of_strategies(strategies(q=((8, 1), (1, 1))), graph).pins
    assert pin.inputs == ((4, 2, 1), (1, 1))
    with pytest.raises(RequestError, match=r"do not divide into\. Leave the op out of --keep"):
        pins_of_strategies(strategies(q=((16, 1), (1, 1))), graph)
