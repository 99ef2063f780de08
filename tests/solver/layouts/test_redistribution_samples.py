"""The three samples of MindSpore's design text for Z = (X x W) x V, planned with both ops pinned.

X is 64 x 16, W 16 x 32, V 32 x 128; strategies are those of the text, on four devices.
"""

from __future__ import annotations

import pytest

from meshwright.schema import Axis, Budget, Pin, Plan, Redistribution, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, topology

Pins = dict[str, dict[str, tuple[str, ...]]]
ONE_LEVEL, TWO_LEVELS = (4,), (2, 2)


def planned(pins: Pins, levels: tuple[int, ...], phase: str) -> Plan:
    maker = GraphMaker()
    x = maker.input("X", 64, 16)
    y = maker.op("matmul", [x, maker.parameter("W", 16, 32)], [64, 32], "Y")
    z = maker.op("matmul", [y, maker.parameter("V", 32, 128)], [64, 128], "Z")
    maker.op("relu", [z], [64, 128], "out")
    loss = maker.op("sum", ["out:out"], [], "loss", attrs={"dim": [0, 1]})
    answer = plan(
        toy_request(
            graph=maker.graph(loss, loss=loss),
            topology=topology(*levels),
            setup=Setup(phase=phase, microbatches=1),  # type: ignore[arg-type]  # one of its words
            budget=Budget(max_axes=len(levels)),
            pins=tuple(Pin(op=op, strategy=strategy) for op, strategy in pins.items()),
        )
    )
    assert answer.plan is not None
    return answer.plan


def of_tensor(found: Plan, tensor: str) -> tuple[Redistribution, ...]:
    return tuple(m for m in found.stages[0].redistributions if m.tensor == tensor)


def steps(found: Plan, tensor: str, half: str) -> list[tuple[str, tuple[Axis, ...]]]:
    return [
        (step.kind, step.axes)
        for moved in of_tensor(found, tensor)
        for step in getattr(moved, half)
    ]


@pytest.mark.parametrize("phase", ["training", "inference"])
def test_data_parallel_into_model_parallel_is_one_all_gather(phase: str):
    # rows of X over four devices; then columns of V, for which every device needs all of Y
    found = planned({"Y": {"m": ("gpu",)}, "Z": {"n": ("gpu",)}}, ONE_LEVEL, phase)
    assert steps(found, "Y:out", "forward") == [("all_gather", ("gpu",))]
    assert found.stages[0].mesh.groups(["gpu"]) == ((0, 1, 2, 3),)
    # backward every device has a share of the gradient of all of Y, and wants its rows
    assert steps(found, "Y:out", "backward") == (
        [("reduce_scatter", ("gpu",))] if phase == "training" else []
    )
    (moved,) = of_tensor(found, "Y:out")
    # 64 x 32 numbers of 4 bytes, gathered from quarters
    assert moved.forward[0].payload_bytes == 8192
    assert moved.largest_step_bytes == moved.forward[0].peak_bytes == 8192 + 2048


@pytest.mark.parametrize("phase", ["training", "inference"])
def test_column_sharded_into_row_sharded_is_one_all_to_all(phase: str):
    # columns of W over four devices, so columns of Y; then rows of Y
    found = planned({"Y": {"n": ("gpu",)}, "Z": {"m": ("gpu",)}}, ONE_LEVEL, phase)
    assert steps(found, "Y:out", "forward") == [("all_to_all", ("gpu",))]
    assert found.stages[0].mesh.groups(["gpu"]) == ((0, 1, 2, 3),)
    assert steps(found, "Y:out", "backward") == (
        [("all_to_all", ("gpu",))] if phase == "training" else []
    )
    (moved,) = of_tensor(found, "Y:out")
    assert moved.forward[0].payload_bytes == 2048
    assert moved.largest_step_bytes == 2 * 2048


@pytest.mark.parametrize("phase", ["training", "inference"])
def test_hybrid_into_matching_hybrid_is_no_redistribution_and_one_all_reduce(phase: str):
    # rows of X over the nodes and columns of W within; Y's columns are then summed over
    pins: Pins = {
        "Y": {"m": ("node",), "n": ("gpu",)},
        "Z": {"m": ("node",), "k": ("gpu",)},
        "out": {"d0": ("node",)},  # left to itself it reads a part of each node's sum, scattered
    }
    found = planned(pins, TWO_LEVELS, phase)
    assert of_tensor(found, "Y:out") == ()
    # Z is partial within each node; its sum is the one collective that the value needs
    assert steps(found, "Z:out", "forward") == [("all_reduce", ("gpu",))]
    assert found.stages[0].mesh.groups(["gpu"]) == ((0, 1), (2, 3))
    assert steps(found, "Z:out", "backward") == []
    (moved,) = of_tensor(found, "Z:out")
    # 32 rows of 128 numbers of 4 bytes, in place
    assert moved.largest_step_bytes == moved.forward[0].payload_bytes == 32 * 128 * 4
