"""What a stage gets, makes for itself and sends."""

from __future__ import annotations

import pytest

from meshwright.schema import Graph, InvalidInput
from meshwright_solver.pipeline.stage_graph import Anatomy, received, stage_graphs
from tests.solver.layered import layered
from tests.solver.small_graphs import GraphMaker


def cut(graph: Graph, *names: str) -> tuple[Graph, ...]:
    anatomy = Anatomy(graph)
    return stage_graphs(anatomy, [anatomy.place[name] for name in names])


def test_a_stage_receives_what_it_reads_and_sends_what_later_ones_read() -> None:
    first, second = cut(layered(), "2.linear")
    assert received(first) == ()
    assert first.outputs == ("1.add:out",)
    assert first.loss is None
    assert received(second) == ("1.add:out",)
    assert second.loss == "loss:out"
    assert [op.name for op in first.ops] == [
        "embed",
        *(f"{layer}.{part}" for layer in (0, 1) for part in ("linear", "act", "add")),
    ]
    names = {op.name for graph in (first, second) for op in graph.ops}
    assert names == {op.name for op in layered().ops} | {"receive 1.add:out"}


def test_parameters_and_inputs_are_where_they_are_read() -> None:
    first, second = cut(layered(tied=True), "2.linear")
    of_first, of_second = ({tensor.name for tensor in graph.tensors} for graph in (first, second))
    assert {"words", "w0", "w1", "ids"} <= of_first
    assert {"words", "w2", "w3", "label"} <= of_second
    assert "ids" not in of_second
    assert "w2" not in of_first


def test_a_tensor_that_skips_stages_is_received_and_sent_on() -> None:
    stages = cut(layered(skip=True), "1.linear", "2.linear", "3.linear")
    assert received(stages[1]) == ("0.add:out",)
    assert received(stages[2]) == ("0.add:out", "1.add:out")
    assert stages[2].outputs == ("0.add:out", "2.add:out")
    assert received(stages[3]) == ("0.add:out", "2.add:out")


def test_views_and_what_depends_on_no_parameter_are_made_where_they_are_needed() -> None:
    maker = GraphMaker()
    x = maker.input("x", 8, 6)
    mask = maker.op("gelu", [x], [8, 6], "mask")
    made = maker.op("linear", [x, maker.parameter("w", 6, 6)], [8, 6], "first")
    turned = maker.op("transpose", [made], [6, 8], "turned", attrs={"dims": [1, 0]})
    back = maker.op("transpose", [turned], [8, 6], "back", attrs={"dims": [1, 0]})
    one = maker.op("linear", [back, maker.parameter("v", 6, 6)], [8, 6], "second")
    two = maker.op("mul", [one, mask], [8, 6], "masked")
    maker.op("sum", [two], [], "loss", attrs={"dims": [0, 1]})
    first, second = cut(maker.graph("loss:out", loss="loss:out"), "second")
    assert [op.name for op in first.ops] == ["first"]
    assert first.outputs == ("first:out",)
    assert received(second) == ("first:out",)
    assert [op.name for op in second.ops] == [
        "receive first:out", "mask", "turned", "back", "second", "masked", "loss",
    ]  # fmt: skip


def test_received_values_have_the_gradient_that_they_have_in_the_whole_graph() -> None:
    _, second = cut(layered(), "2.linear")
    assert second.ops[0].attrs == {"gradient": True}
    graph = layered()
    without = [
        tensor.model_copy(update={"trainable": False}) if tensor.role == "parameter" else tensor
        for tensor in graph.tensors
    ]
    frozen = graph.model_copy(update={"tensors": tuple(without)})
    _, second = cut(frozen, "2.linear")
    assert second.ops[0].attrs == {"gradient": False}


def test_an_empty_stage_is_refused() -> None:
    anatomy = Anatomy(layered())
    with pytest.raises(InvalidInput, match="leave a stage empty"):
        stage_graphs(anatomy, [3, 3])
