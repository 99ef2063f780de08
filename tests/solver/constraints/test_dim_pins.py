"""Pins of inputs and outputs: kept exactly by what the layouts of a strategy are, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import Pin, RequestError, Setup
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.pin_filters import pin_filters
from meshwright_solver.constraints.pins import check_axes, pinned_ops
from meshwright_solver.evaluation.accounting.assignment import layout_of
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.small_graphs import GraphMaker, models

Rows = set[tuple[int, ...]]


def product(batch: int = 8, setup: Setup | None = None, mesh: tuple[int, ...] = (2, 4)) -> Models:
    """x [batch, 16, 32] by w [64, 32]; y is read by another product, so that its layouts count."""
    maker = GraphMaker(batch=batch)
    x = maker.op("gelu", [maker.input("ids", "batch", 16, 32)], ["batch", 16, 32], "first")
    y = maker.op("linear", [x, maker.parameter("w", 64, 32)], ["batch", 16, 64], "fc")
    maker.op("linear", [y, maker.parameter("v", 32, 64)], ["batch", 16, 32], "next")
    return models(maker.graph("next:out"), mesh, setup)


def kept(found: Models, **pin: Any) -> list[dict[str, str]]:
    """The strategies of `fc` that keep a pin, as axis -> part."""
    own = Pin(op="fc", **pin)
    pinned = pinned_ops(found.problem, [own], found.values.views)
    (position,) = pinned
    check_axes([own], [found.mesh])
    model = found.ops.model(position)
    mask = pin_filters(found.problem, pinned, values=found.values, mesh=found.mesh)[position](
        model, model.choices
    )
    parts = [part.name for part in found.problem.ops[position].parts] + [""]
    return [
        {axis: parts[code] for axis, code in zip(found.mesh.names, row, strict=True)}
        for row in model.choices[mask].tolist()
    ]


def test_axes_by_dim_of_every_input_are_one_strategy():
    found = product()
    assert kept(found, inputs=[["a0", 1, 1], ["a1", 1]]) == [{"a0": "b0", "a1": "n"}]
    assert kept(found, inputs=[["a0", 1, ["a1"]], [1, "a1"]]) == [{"a0": "b0", "a1": "k"}]
    assert kept(found, inputs=[[1, 1, 1], [1, 1]]) == [{"a0": "", "a1": ""}]
    assert kept(found, inputs=[[["a0", "a1"], 1, 1], [1, 1]]) == [{"a0": "b0", "a1": "b0"}]


def test_numbers_of_parts_leave_the_axes_open_where_several_make_them_up():
    found = product()
    assert kept(found, inputs=[[2, 1, 1], [4, 1]]) == [{"a0": "b0", "a1": "n"}]
    assert kept(found, inputs=[[8, 1, 1], [1, 1]]) == [{"a0": "b0", "a1": "b0"}]
    square = product(mesh=(2, 2))
    assert kept(square, inputs=[[2, 1, 1], [2, 1]]) == [
        {"a0": "b0", "a1": "n"}, {"a0": "n", "a1": "b0"},
    ]  # fmt: skip


def test_a_level_means_all_of_its_axes():
    found = product()
    assert kept(found, inputs=[["gpu", 1, 1], [1, 1]]) == [{"a0": "b0", "a1": "b0"}]


def test_what_is_left_open_is_the_search_s():
    found = product()
    first = kept(found, inputs=[["a0", 1, 1], None])
    assert {own["a0"] for own in first} == {"b0"}
    assert {own["a1"] for own in first} == {"n", ""}
    assert kept(found, inputs=[None, ["a1", 1]]) == [
        own for own in kept(found, inputs=[None, None]) if own["a1"] == "n" and own["a0"] != "n"
        and own["a0"] != "k"
    ]  # fmt: skip


def test_outputs_are_as_the_op_makes_them():
    found = product()
    made = kept(found, outputs=[["a0", 1, "a1"]])
    assert made == [{"a0": "b0", "a1": "n"}]
    summed = kept(found, outputs=[["a0", 1, 1]])
    assert {own["a1"] for own in summed} == {"k", ""}  # partial over a1, or repeated
    both = kept(found, inputs=[["a0", 1, "a1"], [1, "a1"]], outputs=[["a0", 1, 1]])
    assert both == [{"a0": "b0", "a1": "k"}]


def test_what_is_kept_has_layouts_with_these_numbers_of_parts():
    """By the layouts that a plan would say, which the filter does not look at."""
    found = product()
    model = found.ops.model(1)
    expected: dict[tuple[tuple[int, ...], ...], Rows] = {}
    for row in model.choices:
        needed = [model.required(row[None, :], k)[0] for k in range(2)]
        ways = tuple(
            parts_of(found, name, codes)
            for name, codes in zip(("first:out", "w"), needed, strict=True)
        )
        expected.setdefault(ways, set()).add(tuple(row.tolist()))
    assert len(expected) > 10
    for ways, rows in expected.items():
        pinned = pinned_ops(found.problem, [Pin(op="fc", inputs=ways)], found.values.views)
        mask = pin_filters(found.problem, pinned, values=found.values, mesh=found.mesh)[1](
            model, model.choices
        )
        assert {tuple(row.tolist()) for row in model.choices[mask]} == rows


def parts_of(found: Models, tensor: str, codes: IntArray) -> tuple[int, ...]:
    value = found.values.value_of[tensor]
    layout = layout_of(found, value, tuple(codes.tolist()), partial=len(value.slots) + 1)
    return tuple(found.mesh.size(dim.axes) for dim in layout.dims)


@pytest.mark.parametrize(
    ("pin", "names"),
    [
        ({"inputs": [[2, 1, 1]]}, ["op 'fc' has 2 inputs", "cuts of 1"]),
        ({"outputs": [[2, 1, 1], [1]]}, ["op 'fc' has 1 outputs", "of 2"]),
        ({"inputs": [[2, 1], [1, 1]]}, ["input 0 of op 'fc'", "[8, 16, 32]", "(2,1)", "2 dims"]),
        ({"inputs": [["a0", "a0", 1], [1, 1]]}, ["axis 'a0' is listed twice"]),
        ({"inputs": [[8, 1, 2], [1, 2]]}, ["16 parts", "8 devices"]),
        ({"inputs": [[1, 1, 2], [1, 4]]}, ["input 1", "into 4 parts", "into 2"]),
        ({"inputs": [["rack", 1, 1], [1, 1]]}, ["no axis 'rack'", "a0, a1, gpu"]),
        ({"inputs": [[1, 1, 1], [1, 1]], "outputs": [[1, 1, 1, 1]]}, ["output 0", "4 dims"]),
    ],
)
def test_cuts_that_do_not_fit_are_refused_by_name(pin: dict[str, Any], names: list[str]):
    with pytest.raises(RequestError) as wrong:
        kept(product(), **pin)
    for name in names:
        assert name in wrong.value.detail


def test_sizes_that_do_not_divide_need_uneven_cuts():
    pin = {"inputs": [[4, 1, 1], [1, 1]]}
    with pytest.raises(RequestError, match="dim 0 of 6 does not divide into 4 parts"):
        kept(product(batch=6), **pin)
    assert kept(product(batch=60, setup=Setup(uneven="chunk")), **pin) == [{"a0": "", "a1": "b0"}]


def test_numbers_that_no_axes_make_up_are_refused():
    found = product(mesh=(8,))
    with pytest.raises(RequestError, match="no axes of any mesh make 4 parts; they make 1, 8"):
        kept(found, inputs=[[4, 1, 1], [1, 1]])
