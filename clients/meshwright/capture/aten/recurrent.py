"""Converters of recurrent layers, one op for each layer and direction, and of linear attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from meshwright.capture.aten.call import AtenCall, Converter
from meshwright.capture.program import Node, Value
from meshwright.schema.recurrent_inputs import GATES, RESERVE


def _layers(call: AtenCall, *, kind: str, **attrs: Any) -> None:
    """The layers of nn.LSTM, nn.GRU or nn.RNN, with the dropout between them."""
    states: list[Value] = call.args["hx"]
    x: Value = call.args["input"]
    if not call.args["batch_first"]:
        x = _swapped(call, x)
    directions = 2 if call.args["bidirectional"] else 1
    depth = call.args["num_layers"]
    weights = _in_groups(call.args["params"], depth * directions)
    lasts: list[list[Value]] = []
    for layer in range(depth):
        sides = []
        for direction in range(directions):
            place = layer * directions + direction
            initial = [_row(call, state, place) for state in states]
            results = _layer(
                call, kind, [x, *next(weights)], initial, reverse=bool(direction), **attrs
            )
            sides.append(results[0])
            lasts.append(results[1:])
        x = sides[0] if directions == 1 else _joined(call, sides, 2)
        if call.args["dropout"] and call.args["train"] and layer < depth - 1:
            x = _dropout(call, x, call.args["dropout"])
    if not call.args["batch_first"]:
        x = _swapped(call, x)
    ends = [_stacked(call, [last[k] for last in lasts]) for k in range(len(states))]
    call.alias(x, *ends)


def _layer(
    call: AtenCall, kind: str, inputs: list[Value], states: list[Value], **attrs: Any
) -> list[Value]:
    """y, the last h and of `lstm` the last c of one layer in one direction."""
    x, weight_ih, weight_hh = inputs[:3]
    batch, steps = x.shape[:2]
    hidden, width = weight_ih.shape[0] // GATES[kind], weight_hh.shape[1]
    has_bias = len(inputs) >= 5
    shapes = [(batch, steps, width), (batch, width)]
    if kind == "lstm":
        shapes.append((batch, hidden))
    if RESERVE[kind]:
        shapes.append((batch, steps, RESERVE[kind] * hidden))
    results = [Value("", shape, x.dtype) for shape in shapes]
    settings = {"bias": has_bias, "projection": width != hidden, "state": True, **attrs}
    call.nodes.append(Node(kind, [*inputs, *states], results, settings, call.module))
    return results[: 1 + len(states)]


def _cell(call: AtenCall, *, kind: str, **attrs: Any) -> None:
    """One step of a layer: a sequence of one position."""
    x: Value = call.args["input"]
    states: list[Value] = call.args["hx"]
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    weights = [weight for name in names if (weight := call.args.get(name)) is not None]
    if x.rank != 2:
        return call.unknown()
    step = call.step("reshape", [x], (x.shape[0], 1, x.shape[1]))
    results = _layer(call, kind, [step, *weights], states, reverse=False, **attrs)
    return call.alias(*results[1:])


def _in_groups(items: Sequence[Value], count: int) -> Iterator[list[Value]]:
    size = len(items) // count
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _swapped(call: AtenCall, x: Value) -> Value:
    first, second, *rest = x.shape
    return call.step("transpose", [x], (second, first, *rest), dims=[1, 0, 2])


def _row(call: AtenCall, x: Value, place: int) -> Value:
    if x.shape[0] > 1:
        shape = (1, *x.shape[1:])
        x = call.step("slice", [x], shape, dim=0, start=place, end=place + 1, step=1)
    return call.step("reshape", [x], x.shape[1:])


def _joined(call: AtenCall, values: Sequence[Value], dim: int) -> Value:
    shape = list(values[0].shape)
    shape[dim] = sum(value.shape[dim] for value in values)
    return call.step("concat", values, shape, dim=dim)


def _stacked(call: AtenCall, values: Sequence[Value]) -> Value:
    rows = [call.step("reshape", [value], (1, *value.shape)) for value in values]
    return rows[0] if len(rows) == 1 else _joined(call, rows, 0)


def _dropout(call: AtenCall, x: Value, probability: float) -> Value:
    result, mask = Value("", x.shape, x.dtype), Value("", x.shape, "bool")
    call.nodes.append(Node("dropout", [x], [result, mask], {"p": probability}, call.module))
    return result


def _scan(call: AtenCall, *, kind: str) -> None:
    call.op(kind, list(call.args.values()))


CONVERTERS: dict[str, Converter] = {
    "gated_delta_rule": partial(_scan, kind="gated_delta_rule"),
    "linear_recurrence": partial(_scan, kind="linear_recurrence"),
    "wkv": partial(_scan, kind="wkv"),
    "lstm_cell": partial(_cell, kind="lstm"),
    "gru_cell": partial(_cell, kind="gru"),
    "rnn_tanh_cell": partial(_cell, kind="rnn", nonlinearity="tanh"),
    "rnn_relu_cell": partial(_cell, kind="rnn", nonlinearity="relu"),
    "lstm": partial(_layers, kind="lstm"),
    "gru": partial(_layers, kind="gru"),
    "rnn_tanh": partial(_layers, kind="rnn", nonlinearity="tanh"),
    "rnn_relu": partial(_layers, kind="rnn", nonlinearity="relu"),
}
