"""Data parallelism: the batch is found by symbol, in products of dims and without symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshwright_solver.constraints.batch_dims import batch_parts, data_parallel
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.small_graphs import GraphMaker, models


def placed(found: Models) -> dict[str, dict[str, str]]:
    """Op -> axis -> the part on which data parallelism puts it."""
    parts = batch_parts(found.problem)
    answer = {}
    for position, op in enumerate(found.problem.ops):
        if position in found.values.views:
            continue
        model = found.ops.model(position)
        mask = data_parallel(parts[position])(model, model.choices)
        assert mask.sum() == 1
        names = [part.name for part in op.parts] + [""]
        (row,) = model.choices[mask].tolist()
        answer[op.name] = {
            axis: names[code] for axis, code in zip(found.mesh.names, row, strict=True)
        }
    return answer


def two(maker: GraphMaker, rows: Any) -> GraphMaker:
    y = maker.op("linear", [maker.input("x", rows, 8), maker.parameter("w", 8, 8)], [rows, 8], "fc")
    maker.op("gelu", [y], [rows, 8], "act")
    return maker


def test_the_symbol_batch_is_cut_over_all_devices():
    found = placed(models(two(GraphMaker(batch=8), "batch").graph("act:out"), (2, 4)))
    assert found == {"fc": {"a0": "b0", "a1": "b0"}, "act": {"a0": "d0", "a1": "d0"}}


def test_without_a_symbol_dim_0_of_inputs_is_the_batch():
    found = placed(models(two(GraphMaker(), 8).graph("act:out"), (2, 4)))
    assert found == {"fc": {"a0": "b0", "a1": "b0"}, "act": {"a0": "d0", "a1": "d0"}}


def test_a_batch_that_does_not_divide_uses_as_many_devices_as_it_can():
    found = placed(models(two(GraphMaker(batch=4), "batch").graph("act:out"), (2, 4)))
    assert found["fc"] == {"a0": "", "a1": "b0"}
    found = placed(models(two(GraphMaker(batch=6), "batch").graph("act:out"), (2, 4)))
    assert found["fc"] == {"a0": "b0", "a1": ""}
    found = placed(models(two(GraphMaker(batch=5), "batch").graph("act:out"), (2, 4)))
    assert found["fc"] == {"a0": "", "a1": ""}


def test_the_batch_is_the_outer_part_of_a_product_of_dims():
    maker = GraphMaker(batch=8)
    x = maker.op("gelu", [maker.input("x", "batch", 4, 8)], ["batch", 4, 8], "first")
    flat = maker.op("reshape", [x], ["batch*4", 8], "flat")
    maker.op("linear", [flat, maker.parameter("w", 8, 8)], ["batch*4", 8], "fc")
    found = placed(models(maker.graph("fc:out"), (2, 4)))
    assert found["fc"] == {"a0": "b0_0", "a1": "b0_0"}
    assert found["first"] == {"a0": "d0", "a1": "d0"}


def test_the_batch_is_followed_through_dims_of_whole_numbers():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.input("x", 8, 4, 8)], [8, 4, 8], "first")
    turned = maker.op("transpose", [x], [4, 8, 8], "turned", attrs={"dims": [1, 0, 2]})
    maker.op("softmax", [turned], [4, 8, 8], "soft")
    found = placed(models(maker.graph("soft:out"), (2, 4)))
    assert found["soft"] == {"a0": "d1", "a1": "d1"}


def test_what_has_no_batch_is_whole_on_every_device():
    maker = two(GraphMaker(batch=8), "batch")
    maker.op("mul", [maker.parameter("p", 8, 8), maker.parameter("q", 8, 8)], [8, 8], "weights")
    found = placed(models(maker.graph("act:out", "weights:out"), (2, 4)))
    assert found["weights"] == {"a0": "", "a1": ""}


@pytest.mark.parametrize("mesh", [(8,), (2, 2, 2)])
def test_parameters_are_read_whole(mesh: tuple[int, ...]):
    found = models(two(GraphMaker(batch=8), "batch").graph("act:out"), mesh)
    parts = batch_parts(found.problem)
    model = found.ops.model(0)
    row = model.choices[data_parallel(parts[0])(model, model.choices)]
    needed = model.required(row, 1)
    slots = found.ops.space("w").slots
    assert (np.asarray(needed) >= slots).all()
