"""Documents as text: what pydantic and Python's json write, whatever is shared."""

from __future__ import annotations

import json
import math

import pytest

from bench.planning import planned
from meshwright.schema import Graph, Pin, Setup
from meshwright.schema.canonical import canonical_json
from meshwright.schema.json_writer import written, written_canonically
from tests.one_stage import one_stage_request
from tests.solver.small_graphs import topology


def reference(document) -> str:
    values = document.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def graph(**attrs) -> Graph:
    return Graph.from_dict(
        {
            "name": 'of "é"',
            "symbols": {"batch": 4},
            "tensors": [
                {"name": "x", "shape": ["batch", 8], "dtype": "float32", "role": "input"},
                {"name": "y", "shape": ["batch", 8], "dtype": "float32"},
            ],
            "ops": [
                {"name": "o", "kind": "gelu", "inputs": ["x"], "outputs": ["y"], "attrs": attrs}
            ],
            "outputs": ["y"],
        }
    )


@pytest.mark.parametrize(
    "document",
    [
        graph(),
        graph(a=1.0, b=[1, 2.5, None, True, "\n\u2028"], c={"e\u0301": {"er": []}, "b": 1}, d=-0.0),
        Setup(),
        Setup(dataset="data_parallel", global_batch=64, symbols={"seq": 8}),
        topology(2, 4),
        one_stage_request(
            graph=graph(),
            topology=topology(2),
            pins=(Pin(op="*", data_parallel=True), Pin(op="o", strategy={"b": ("a0",)})),
        ),
    ],
    ids=lambda document: type(document).__name__,
)
def test_a_document_is_written_as_pydantic_dumps_it(document):
    assert written(document) == document.to_json() == reference(document)
    assert written_canonically(document) == canonical_json(document.to_dict())


def test_a_plan_whose_items_share_layouts_is_written_as_one_that_shares_nothing():
    plan = planned("wide-deep", "h100-2x8").plan
    assert plan is not None
    assert written(plan) == reference(plan)
    assert written_canonically(plan) == canonical_json(plan.to_dict())
    assert written(type(plan).from_json(plan.to_json())) == written(plan)


def test_items_that_are_alike_but_for_their_names_are_written_as_they_are():
    kinds = [
        {"kind": "gelu"},
        {"kind": "gelu", "attrs": {"a": 1}},
        {"kind": "gelu", "attrs": {"a": 1.0}},
        {"kind": "gelu", "attrs": {"a": True}},
        {"kind": "gelu", "strategy": {"b": ["a0"]}},
        {"kind": "odd", "rule": {"notation": "b s -> b s"}},
    ]
    tensors: list[dict] = [{"name": "x", "shape": ["b", 8], "dtype": "float32", "role": "input"}]
    ops: list[dict] = []
    for copy in range(4):
        for number, kind in enumerate(kinds):
            name = f"{copy}.{number}"
            module = {} if number == 1 and copy % 2 else {"module": f'é"{copy}'}
            tensors.append({"name": name, "shape": ["b", 8], "dtype": "float32"})
            ops.append({"name": name, **kind, "inputs": ["x"], "outputs": [name], **module})
        tensors.append({"name": f"{copy}.n", "shape": ["b", 8], "dtype": "float32"})
        ops.append({"name": f"{copy}.n", "kind": "zeros", "outputs": [f"{copy}.n"]})
    fields = {"symbols": {"b": 4}, "tensors": tensors, "ops": ops, "outputs": ["3.1"]}
    document = Graph.from_dict(fields)
    assert written(document) == reference(document)
    assert written_canonically(document) == canonical_json(document.to_dict())


def test_a_number_that_json_does_not_have_is_refused():
    endless = topology(2).levels[0].link.model_copy(update={"bytes_per_s": math.inf})
    with pytest.raises(ValueError, match="no number inf"):
        written(endless)
