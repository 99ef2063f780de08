"""Graphs are valid from birth: every fault is refused by its name, and says where it is."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from meshwright.schema import Graph, GraphError, MeshwrightError, Op, RuleError, TooLarge

GOOD: dict[str, Any] = {
    "symbols": {"batch": 8, "seq": 4},
    "tensors": [
        {"name": "x", "shape": ["batch", 6], "dtype": "float32", "role": "input"},
        {"name": "w", "shape": [10, 6], "dtype": "float32", "role": "parameter"},
        {"name": "y", "shape": ["batch", 10], "dtype": "float32"},
        {"name": "l", "shape": [], "dtype": "float32"},
    ],
    "ops": [
        {"name": "fc", "kind": "linear", "inputs": ["x", "w"], "outputs": ["y"]},
        {"name": "loss", "kind": "mean", "inputs": ["y"], "outputs": ["l"]},
    ],
    "outputs": ["l"],
    "loss": "l",
}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The good graph with values put at paths such as `ops/0/inputs`."""
    document = copy.deepcopy(GOOD)
    for path, value in changes:
        *way, last = path.split("/")
        at: Any = document
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        if isinstance(at, list):
            at.insert(int(last), value) if int(last) >= len(at) else at.__setitem__(
                int(last), value
            )
        else:
            at[last] = value
    return document


def refused(document: dict[str, Any]) -> MeshwrightError:
    with pytest.raises(MeshwrightError) as wrong:
        Graph.from_dict(document)
    with pytest.raises(type(wrong.value), match=re.escape(wrong.value.detail)):
        Graph.from_json(json.dumps(document))
    return wrong.value


def test_the_good_graph_is_good():
    graph = Graph.from_dict(GOOD)
    assert graph.tensor("y").dims({"batch": 3}) == (3, 10)
    assert graph.instantiate({"batch": 2})["x"] == (2, 6)
    assert [op.name for op in graph.topological_order()] == ["fc", "loss"]
    assert graph.producers()["y"].name == "fc"


FAULTS = [
    # cycles
    ("self loop", [("ops/0/inputs", ["y", "w"])], "op 'fc' is part of a cycle: fc -> fc"),
    ("unknown input", [("ops/0/inputs", ["x", "z"])], "op 'fc' names the tensor 'z' in its inputs"),
    ("unknown output", [("ops/0/outputs", ["z"])], "op 'fc' names the tensor 'z' in its outputs"),
    ("unknown end", [("outputs", ["z"])], "output 'z' is not listed"),
    ("unknown loss", [("loss", "z")], "'z' is not listed"),
    ("two producers", [("ops/1/outputs", ["y"])], "tensor 'y' has two producers, ops 'fc' and"),
    ("twice in one op", [("ops/0/outputs", ["y", "y"])], "tensor 'y' has two producers"),
    ("tensor twice", [("tensors/2/name", "x")], "tensor 'x' is listed twice, at 0 and 2"),
    ("op twice", [("ops/1/name", "fc")], "op 'fc' is listed twice"),
    ("no outputs", [("ops/0/outputs", [])], "op 'fc' has no outputs"),
    # roles
    ("input made by an op", [("tensors/2/role", "input")], "'y' is an output of op 'fc' but has"),
    ("orphan", [("tensors/0/role", "activation")], "tensor 'x' has the role 'activation' but no"),
    ("loss of many", [("loss", "y")], "the loss 'y' must have one element"),
    # sizes
    ("zero", [("tensors/1/shape", [0, 6])], "tensor 'w': a dim must have a size of 1"),
    ("negative", [("tensors/1/shape", [-3, 6])], "tensor 'w': a dim must have a size of 1"),
    ("2^60", [("tensors/1/shape", [2**60])], "tensor 'w': a dim must have a size of 1"),
    ("huge", [("tensors/1/shape", [10**400])], "tensor 'w': a dim must have a size of 1"),
    ("product", [("tensors/1/shape", [2**30, 2**30])], "tensor 'w' has 1.15e+18 elements"),
    ("rank", [("tensors/1/shape", [1] * 17)], "tensor 'w' has 17 dims. Use at most 16"),
    ("unknown symbol", [("tensors/0/shape", ["rows"])], "tensor 'x': size 'rows' uses the symbol"),
    ("symbol zero", [("symbols/batch", 0)], "symbol 'batch' must be 1 to"),
    ("symbol huge", [("symbols/batch", 2**54)], "symbol 'batch' must be 1 to"),
    ("symbol name", [("symbols", {"batch": 8, "seq": 4, "a b": 1})], "'a b' is not a symbol name"),
    ("rest", [("tensors/0/shape", ["batch//3"])], "tensor 'x': size 'batch//3': 8 does not divide"),
    ("none left", [("tensors/0/shape", ["batch-8"])], "got 'batch-8' = 0"),
    ("by zero", [("tensors/0/shape", ["seq//(batch-8)"])], "4 does not divide by 0"),
    ("rest of zero", [("tensors/0/shape", ["seq%(batch-8)"])], "a remainder by 0 has no value"),
    # names
    ("empty name", [("ops/0/name", "")], "op name '' must have 1 to"),
    ("control character", [("ops/0/name", "a\nb")], "must have 1 to 512 printable"),
    ("long name", [("ops/0/name", "a" * 513)], "must have 1 to 512 printable"),
    # attributes
    (
        "nested attribute",
        [("ops/0/attrs", {"a": eval("[" * 80 + "]" * 80)})],
        "op 'fc': its attrib",
    ),
    ("half a character", [("ops/0/attrs", {"a": "\ud800"})], "op 'fc': its attributes"),
    ("half in the kind", [("ops/0/kind", "\ud800")], "/ops/0/kind"),
    # fields
    ("unknown field", [("ops/0/colour", "red")], "/ops/0/colour"),
    ("unknown role", [("tensors/0/role", "weight")], "/tensors/0/role"),
    ("unknown dtype", [("tensors/0/dtype", "float12")], "/tensors/0/dtype"),
    ("half a size", [("tensors/0/shape", [1.5])], "/tensors/0/shape"),
    ("not a list", [("ops", {})], "/ops"),
    ("another version", [("schema_version", 2)], "/schema_version"),
]


@pytest.mark.parametrize(("changes", "names"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_is_refused_and_named(changes, names):
    error = refused(changed(*changes))
    assert isinstance(error, GraphError)
    assert names in error.detail


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ([("ops/0/inputs", ["x", "z"])], "/ops/0/inputs/1"),
        ([("tensors/1/shape", [0, 6])], "/tensors/1/shape"),
        ([("ops/1/outputs", ["y"])], "/ops/1/outputs/0"),
        ([("loss", "y")], "/loss"),
        ([("ops/0/rule", "b k, n -> b n")], "/ops/0/rule"),
    ],
)
def test_a_fault_is_pointed_at(changes, pointer):
    assert refused(changed(*changes)).pointer == pointer


@pytest.mark.parametrize(
    "size",
    [
        "9**9**9", "batch.real", "__import__('os')", "batch if 1 else 2", "-batch", "~1", "1e3",
        "1_000", "0x10", "'a'", "[1]", "lambda: 1", "batch/2", "batch\n", " batch\x00",
        "(batch:=3)", "１", "bаtch", "1or 2", "batch&3", "batch@2", "f(batch)", "", "(",
        "batch batch", "2batch",
        "((((((((((((((((((((batch", "9" * 201, "(" * 101 + "1" + ")" * 101, "batch*" * 60 + "1",
    ],
)  # fmt: skip
def test_a_size_that_is_no_plain_expression_is_refused_with_its_tensor(size):
    error = refused(changed(("tensors/0/shape", [size, 6])))
    assert isinstance(error, GraphError)
    assert error.detail.startswith("tensor 'x': ")
    assert error.pointer == "/tensors/0/shape"
    assert len(error.detail) < 500


@pytest.mark.parametrize(
    ("size", "value"),
    [
        ("batch", 8), ("2*batch", 16), ("batch*seq", 32), ("2*batch*seq//8", 8), ("seq+1", 5),
        ("(batch - seq) * 3", 12), ("seq - 3", 1), ("12", 12),
    ],
)  # fmt: skip
def test_sizes_are_whole_number_expressions_in_the_symbols(size, value):
    graph = Graph.from_dict(changed(("tensors/0/shape", [size, 6])))
    assert graph.instantiate({})["x"] == (value, 6)


def test_deep_parentheses_and_long_sums_are_read_or_refused_but_never_hang():
    for size in ("(" * 80 + "1" + ")" * 80, "+".join(["1"] * 100), "a" * 199, "1" * 15):
        document = changed(("tensors/0/shape", [size, 6]))
        try:
            Graph.from_dict(document)
        except GraphError as wrong:
            assert "tensor 'x'" in wrong.detail  # noqa: PT017  # either is right


def test_a_long_cycle_is_found_and_shown_short():
    count = 20_000
    tensors = [{"name": f"t{k}", "shape": [2], "dtype": "float32"} for k in range(count)]
    ops = [
        {"name": f"op{k}", "kind": "gelu", "inputs": [f"t{(k + 1) % count}"], "outputs": [f"t{k}"]}
        for k in range(count)
    ]
    with pytest.raises(GraphError) as wrong:
        Graph.from_dict({"tensors": tensors, "ops": ops, "outputs": []})
    assert "part of a cycle" in wrong.value.detail
    assert "…" in wrong.value.detail
    assert len(wrong.value.detail) < 300


def test_a_cycle_behind_good_ops_is_named_by_its_own_ops_only():
    document = changed(
        ("tensors/4", {"name": "a", "shape": [2], "dtype": "float32"}),
        ("tensors/5", {"name": "b", "shape": [2], "dtype": "float32"}),
        ("tensors/6", {"name": "c", "shape": [2], "dtype": "float32"}),
        ("ops/2", {"name": "A", "kind": "add", "inputs": ["b", "y"], "outputs": ["a"]}),
        ("ops/3", {"name": "B", "kind": "gelu", "inputs": ["a"], "outputs": ["b"]}),
        ("ops/4", {"name": "C", "kind": "gelu", "inputs": ["b"], "outputs": ["c"]}),
    )
    detail = refused(document).detail
    assert "A -> B -> A" in detail or "B -> A -> B" in detail
    assert "fc" not in detail
    assert "C" not in detail.split(";")[0].replace("cycle: ", "").split(": ")[-1].split(" -> ")


def test_ops_may_be_listed_in_any_order():
    document = copy.deepcopy(GOOD)
    document["ops"].reverse()
    graph = Graph.from_dict(document)
    assert [op.name for op in graph.topological_order()] == ["fc", "loss"]


@pytest.mark.parametrize("field", ["ops", "tensors"])
def test_a_million_and_one_are_too_many(field):
    with pytest.raises(TooLarge) as wrong:
        Graph.from_dict({"tensors": [], "ops": [], "outputs": [], field: [{}] * 1_000_001})
    assert "1,000,001" in wrong.value.detail
    assert wrong.value.pointer == f"/{field}"
    assert wrong.value.status == 413


def test_an_op_of_too_many_ports_is_refused():
    inputs = ["x"] * 4096
    assert "at most 4096" in refused(changed(("ops/0/inputs", inputs))).detail


# --- JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "not JSON"),
        ("[]", "expected a JSON object, got a list"),
        ('{"tensors": [', "not JSON"),
        ('{"symbols": {"a": NaN}}', "NaN"),
        ('{"symbols": {"a": -Infinity}}', "Infinity"),
        ('{"symbols": {"a": 1e999}}', "/symbols/a"),
        ('{"a":' * 100_000, "nested deeper"),
        ("[" * 100_000, "nested deeper"),
        ('{"symbols": {"a": ' + "9" * 5000 + "}}", "not JSON"),
    ],
)
def test_text_that_is_no_graph_is_refused(text, names):
    with pytest.raises(GraphError) as wrong:
        Graph.from_json(text)
    assert names in wrong.value.detail


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(GraphError, match="not JSON"):
        Graph.from_json(b'{"name": "\xff"}')


@pytest.mark.parametrize("value", ["1e999", "-1e999", "[[[1e400]]]"])
def test_an_infinite_attribute_is_refused_at_birth(value):
    text = json.dumps(changed(("ops/0/attrs", {"a": "here"}))).replace('"here"', value)
    with pytest.raises(GraphError, match="op 'fc': its attributes cannot be written"):
        Graph.from_json(text)


def test_what_is_accepted_can_be_written_read_and_named():
    # nested as deeply as attributes may be, with text of every plane
    deep: Any = "é\U0001f600"
    for _ in range(50):
        deep = [deep]
    graph = Graph.from_dict(changed(("ops/0/attrs", {"a": deep, "b": 1e300, "c": None})))
    assert Graph.from_json(graph.to_json()).id == graph.id


# --- rules that a graph brings -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("b k, n -> b n", "input 1 has 1 dims in the rule and the shape [10, 6]"),
        ("b k, n k => b n", "cannot read"),
        ("b k -> b n", "has 1 inputs, the op has 2"),
        ("b k, n b -> b n", "but (b=8) is 8"),
        ("b k, (n m) k -> b (n m)", "do not follow from the shapes"),
        ({"notation": "b k, n k -> b n", "flops": "q*2"}, "flops uses ['q']"),
        ({"notation": "b k, n k -> b n", "flops": "b**k"}, "flops: size 'b**k' is invalid"),
        ({"notation": "b k, n k -> b n", "flops": ""}, "flops: size ''"),
        ({"notation": "b k, n k -> b n", "linear": [[2]]}, "linear names position 2"),
        ({"notation": "b k, n k -> b n", "saves_inputs": [-1]}, "saves_inputs names position -1"),
        ({"notation": "b k, n k -> b n", "sizes": {"z": 3}}, "sizes gives z = 3"),
        ({"notation": "b k, n k -> b n", "sizes": {"n": 0}}, "sizes gives n = 0"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_op(rule, names):
    error = refused(changed(("ops/0/rule", rule)))
    assert isinstance(error, RuleError)
    assert error.detail.startswith("op 'fc': ")
    assert names in error.detail


def test_a_rule_of_its_own_is_read_from_plain_text():
    op = Op.model_validate({**GOOD["ops"][0], "rule": "b k, n k -> b n"})
    assert op.rule is not None
    assert op.rule.notation == "b k, n k -> b n"
    assert Graph.from_dict(changed(("ops/0/rule", "b k, n k -> b n"))).ops[0].rule == op.rule


def test_a_symbol_that_the_graph_has_not_cannot_be_set():
    with pytest.raises(GraphError, match="no symbol 'depth'; its symbols are: batch, seq"):
        Graph.from_dict(GOOD).instantiate({"depth": 3})


def test_a_size_is_neither_true_nor_a_word_that_looks_like_one():
    tensors = [{"name": "x", "shape": [True, 4], "dtype": "float32", "role": "input"}]
    with pytest.raises(GraphError, match="whole number"):
        Graph.from_dict({"tensors": tensors, "ops": [], "outputs": ["x"]})
    with pytest.raises(GraphError, match="whole number"):
        Graph.from_dict({"symbols": {"batch": "64"}, "tensors": [], "ops": [], "outputs": []})
