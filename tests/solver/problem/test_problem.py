"""Problems: graphs in whole numbers, what has a gradient, what is constant, batches."""

from __future__ import annotations

import pytest

from meshwright.schema import GraphError, RuleError, Setup, SetupError
from tests.solver.small_graphs import GraphMaker, problem, topology


def training() -> GraphMaker:
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 6)
    frozen = maker.op("linear", [x, maker.parameter("f", 4, 6, trainable=False)], ["batch", 4], "a")
    live = maker.op("linear", [frozen, maker.parameter("w", 4, 4)], ["batch", 4], "b")
    maker.op("argmax", [live], ["batch"], "unused", attrs={"dims": [1]})
    maker.op("mean", [live], [], "loss")
    return maker


def gradients(maker: GraphMaker, **setup) -> set[str]:
    found = problem(maker.graph("loss:out", loss="loss:out"), topology(2), Setup(**setup))
    return {name for name, info in found.tensors.items() if info.has_gradient}


def test_gradients_flow_between_trained_parameters_and_the_loss():
    assert gradients(training()) == {"w", "b:out", "loss:out"}
    assert gradients(training(), phase="inference") == set()


def test_gradients_flow_through_complex_numbers():
    maker = GraphMaker()
    wave = maker.op("aten.fft_rfft.default", [maker.parameter("w", 4, 6)], [4, 4], "wave")
    next(t for t in maker.tensors if t["name"] == wave)["dtype"] = "complex64"
    back = maker.op("aten.fft_irfft.default", [wave], [4, 6], "back")
    maker.op("mean", [back], [], "loss")
    assert gradients(maker) == {"w", "wave:out", "back:out", "loss:out"}


def test_whole_numbers_have_no_gradient_and_stop_it():
    maker = GraphMaker()
    w = maker.parameter("w", 4, 4)
    top = maker.op("argmax", [w], [4], "top", attrs={"dims": [1]})
    next(t for t in maker.tensors if t["name"] == top)["dtype"] = "int64"
    rows = maker.op("embedding", [maker.parameter("e", 4, 2), top], [4, 2], "rows")
    maker.op("mean", [rows], [], "loss")
    assert gradients(maker) == {"e", "rows:out", "loss:out"}


def test_constants_are_what_depends_on_no_input_and_no_parameter():
    maker = GraphMaker()
    made = maker.op("arange", [], [4], "made")
    table = maker.op("cos", [made], [4], "table")
    buffer = maker.tensor("buffer", [4], "buffer")
    both = maker.op("mul", [table, buffer], [4], "both")
    maker.op("mul", [both, maker.input("x", 4)], [4], "live")
    found = problem(maker.graph("live:out"), topology(2))
    constant = {name for name, info in found.tensors.items() if info.constant}
    assert constant == {"made:out", "table:out", "buffer", "both:out"}


def test_the_graph_is_taken_at_the_batch_of_one_microbatch():
    graph = training().graph("loss:out", loss="loss:out")
    found = problem(graph, topology(2), Setup(global_batch=64, microbatches=4))
    assert found.microbatches == 4
    assert found.tensors["x"].shape == (16, 6)
    assert problem(graph, topology(2), Setup(symbols={"batch": 4})).tensors["x"].shape == (4, 6)
    assert problem(graph, topology(2), microbatches=2).tensors["x"].shape == (4, 6)


@pytest.mark.parametrize(
    ("setup", "error", "names"),
    [
        (Setup(microbatches=3), SetupError, "batch of 8 cannot be cut into 3"),
        (Setup(symbols={"z": 1}), GraphError, "no symbol 'z'"),
        (Setup(global_batch=2**60), GraphError, "tensor 'x'"),
    ],
)
def test_a_setup_that_does_not_fit_the_graph_is_refused(setup, error, names):
    with pytest.raises(error, match=names):
        problem(training().graph("loss:out", loss="loss:out"), topology(2), setup)


def test_a_batch_needs_a_symbol():
    maker = GraphMaker()
    graph = maker.graph(maker.op("gelu", [maker.input("x", 8)], [8], "a"))
    with pytest.raises(SetupError, match="symbol 'batch'"):
        problem(graph, topology(2), Setup(global_batch=8))


def test_a_rule_that_does_not_fit_names_the_op_and_points_at_it():
    maker = training()
    maker.op("linear", ["b:out", maker.parameter("v", 3, 5)], ["batch", 3], "bad")
    with pytest.raises(RuleError, match="op 'bad'") as wrong:
        problem(maker.graph("loss:out", loss="loss:out"), topology(2))
    assert wrong.value.pointer.startswith("/ops/4")


def test_an_unknown_kind_has_no_parts_and_an_own_rule_gives_it_some():
    maker = GraphMaker()
    x = maker.op("zzz", [maker.parameter("p", 4, 6)], [4, 6], "unheard")
    maker.op("zzz", [x], [4, 6], "described", rule="a b! -> a b!")
    found = problem(maker.graph("described:out"), topology(2))
    assert found.op_by_name["unheard"].known is None
    assert found.op_by_name["unheard"].parts == ()
    described = found.op_by_name["described"]
    assert [(part.name, part.shardable) for part in described.parts] == [("a", True), ("b", False)]
    assert described.notation == "a b! -> a b!"


def test_one_tensor_read_twice_by_one_op_keeps_both_places_apart():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 4, 6)], [4, 6], "x")
    maker.op("gram", [x, x], [4, 4], "gram", rule="a k, b k -> a b")
    first, second = problem(maker.graph("gram:out"), topology(2)).op_by_name["gram"].inputs
    # parts: a, k, b
    assert dict(first.slot_of) == {0: 0, 1: 1}
    assert dict(second.slot_of) == {2: 0, 1: 1}


def test_a_halo_part_divides_only_as_inputs_and_outputs_both_do():
    # 9 rows in, 6 out: 3 devices can share both
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 2, 3, 9)], [2, 3, 9], "x")
    maker.op("conv", [x, maker.parameter("w", 3, 3, 4)], [2, 3, 6], "conv")
    (space,) = [
        part
        for part in problem(maker.graph("conv:out"), topology(2)).op_by_name["conv"].parts
        if part.name == "x0"
    ]
    assert (space.size, space.shardable, space.halo_elements) == (3, True, 3)
