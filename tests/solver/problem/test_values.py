"""Values: tensors with their views, and what is worth sharding or saving."""

from __future__ import annotations

from meshwright.schema import Setup
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import ProblemValue, find_values
from tests.solver.small_graphs import GraphMaker, problem, topology


def built(maker: GraphMaker, *outputs: str, **setup) -> Problem:
    return problem(maker.graph(*outputs), topology(2), Setup(**setup))


def value(found: Problem, tensor: str) -> ProblemValue:
    return find_values(found).value_of[tensor]


def test_reshapes_and_transposes_are_views_of_one_value():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 4, 6)], [4, 6], "x")
    y = maker.op("reshape", [x], [4, 2, 3], "split")
    z = maker.op("transpose", [y], [2, 4, 3], "turn", attrs={"dims": [1, 0, 2]})
    maker.op("gelu", [z], [2, 4, 3], "after")
    found = built(maker, "after:out")
    own = value(found, z)
    assert own == value(found, x)
    assert own.root == x
    # slots of x: 4, 2, 3; the turned view has 2, 4, 3
    assert dict(own.slot_of[z]) == {0: 1, 1: 0, 2: 2}
    assert [found.ops[p].name for p, _ in own.readers] == ["after"]
    assert {found.ops[p].name for p in find_values(found).views} == {"split", "turn"}


def test_a_cast_and_a_slice_are_no_views():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 4, 6)], [4, 6], "x")
    half = maker.op("slice", [x], [4, 3], "half", attrs={"dim": 1, "start": 0, "end": 3})
    maker.op("cast", [half], [4, 3], "cast")
    assert find_values(built(maker, "cast:out")).views == frozenset()


def test_inputs_labels_and_what_follows_from_constants_alone_are_free():
    maker = GraphMaker()
    c = maker.tensor("c", [4], "constant")
    table = maker.op("cos", [c], [4], "table")
    x = maker.op("mul", [maker.input("x", 8, 4), table], [8, 4], "x1")
    maker.op("linear", [x, maker.parameter("w", 4, 4)], [8, 4], "y")
    found = built(maker, "y:out")
    free = {name for name in found.tensors if value(found, name).is_free}
    assert free == {"c", "table:out", "x"}
    assert value(found, "w").is_parameter


def test_of_the_slots_of_a_dim_those_that_maker_and_reader_can_both_shard_are_kept():
    # the reader takes half of the columns: it can shard what is inside the half, not the halves
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 4, 6)], [4, 6], "x")
    maker.op("slice", [x], [4, 3], "half", attrs={"dim": 1, "start": 3, "end": 6})
    found = built(maker, "half:out")
    assert [slot.size for slot in found.tensors[x].slots] == [4, 2, 3]
    assert value(found, x).slots == (0, 2)


def test_a_dim_that_maker_and_reader_shard_differently_keeps_all_of_its_slots():
    # a sort cannot split the columns it makes, the reader can: in between they can lie split
    maker = GraphMaker()
    x = maker.op("sort", [maker.parameter("p", 4, 6)], [4, 6], "x", attrs={"dim": 1})
    maker.op("gelu", [x], [4, 6], "y")
    found = built(maker, "y:out")
    assert value(found, x).slots == (0, 1)


def test_what_one_reader_cannot_shard_another_may():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 4, 6)], [4, 6], "x")
    maker.op("sort", [x], [4, 6], "sorted", attrs={"dim": 1})
    maker.op("gelu", [x], [4, 6], "y")
    assert value(built(maker, "sorted:out", "y:out"), x).slots == (0, 1)


def test_a_parameter_can_rest_split_over_its_largest_slot_in_any_case():
    maker = GraphMaker()
    w = maker.parameter("w", 4, 6)
    maker.op("sort", [w], [4, 6], "sorted", attrs={"dim": 1})
    assert value(built(maker, "sorted:out"), w).slots == (0, 1)


def saved(maker: GraphMaker, tensor: str, *outputs: str, **setup) -> bool:
    return value(built(maker, *outputs, **setup), tensor).kept.wanted


def test_the_backward_pass_keeps_what_its_rules_say():
    maker = GraphMaker()
    a = maker.op("gelu", [maker.parameter("p", 4, 4)], [4, 4], "a")
    b = maker.op("relu", [a], [4, 4], "b")
    c = maker.op("add", [b, a], [4, 4], "c")
    d = maker.op("linear", [c, maker.parameter("w", 4, 4)], [4, 4], "d")
    out = maker.op("neg", [d], [4, 4], "e")
    # relu keeps its own output, add and neg nothing, linear its input
    found = [saved(maker, t, out, execution="eager") for t in (a, b, c, d, out)]
    assert found == [False, True, True, False, False]
    assert not any(saved(maker, t, out, phase="inference") for t in (a, b, c, d, out))


def test_a_product_keeps_an_operand_only_for_the_gradient_of_the_other():
    maker = GraphMaker()
    a = maker.op("gelu", [maker.parameter("p", 4, 4)], [4, 4], "a")
    out = maker.op("mul", [a, maker.tensor("c", [4, 4], "constant")], [4, 4], "scaled")
    assert not saved(maker, a, out)
    frozen = maker.op("linear", [a, maker.parameter("w", 4, 4, trainable=False)], [4, 4], "lin")
    assert not saved(maker, a, frozen)
