"""Recurrent layers and cells of PyTorch as one op each while they are traced.

On the meta device PyTorch runs layers step by step, which takes minutes at the traced length, and
cells in some ten ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from meshwright.capture.trace_errors import current_line
from meshwright.schema.errors import GraphError

T = torch.Tensor
PACKED = (
    "packed sequences have another number of rows at each step, which a graph cannot hold. Pass "
    "padded sequences and ignore the padding in the loss"
)
_SCHEMA = (
    "(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
    "bool train, bool bidirectional, bool batch_first) -> Tensor[]"
)


_CELL_SCHEMA = (
    "(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) "
    "-> Tensor[]"
)


def _op(name: str, function: Callable[..., tuple[T, ...]]) -> Callable[..., Sequence[T]]:
    """An op of PyTorch's own schema, but for `hx`, which is a list in all of them."""

    def run(data: T, hx: Sequence[T], *settings: Any) -> list[T]:
        return list(function(data, list(hx) if name == "lstm" else hx[0], *settings))

    def shapes(data: T, hx: Sequence[T], *settings: Any) -> list[T]:
        directions = 2 if settings[-2] else 1
        y = data.new_empty(*data.shape[:-1], hx[0].shape[-1] * directions)
        return [y, *(torch.empty_like(state) for state in hx)]

    op = torch.library.custom_op(f"meshwright::{name}", run, mutates_args=(), schema=_SCHEMA)
    op.register_fake(shapes)
    return op


def _cell_op(name: str, function: Callable[..., Any]) -> Callable[..., Sequence[T]]:
    """As `_op`, for one step."""

    def run(data: T, hx: Sequence[T], *weights: T | None) -> list[T]:
        result = function(data, list(hx) if name == "lstm_cell" else hx[0], *weights)
        return [result] if isinstance(result, torch.Tensor) else list(result)

    def shapes(_data: T, hx: Sequence[T], *_weights: T | None) -> list[T]:
        return [torch.empty_like(state) for state in hx]

    op = torch.library.custom_op(f"meshwright::{name}", run, mutates_args=(), schema=_CELL_SCHEMA)
    op.register_fake(shapes)
    return op


_OPS: Mapping[Any, Callable[..., Sequence[T]]] = {
    torch.lstm: _op("lstm", torch.lstm),
    torch.gru: _op("gru", torch.gru),
    torch.rnn_tanh: _op("rnn_tanh", torch.rnn_tanh),
    torch.rnn_relu: _op("rnn_relu", torch.rnn_relu),
}
_CELLS: Mapping[Any, Callable[..., Sequence[T]]] = {
    torch.lstm_cell: _cell_op("lstm_cell", torch.lstm_cell),
    torch.gru_cell: _cell_op("gru_cell", torch.gru_cell),
    torch.rnn_tanh_cell: _cell_op("rnn_tanh_cell", torch.rnn_tanh_cell),
    torch.rnn_relu_cell: _cell_op("rnn_relu_cell", torch.rnn_relu_cell),
}


def is_recurrent(function: Any) -> bool:
    """Whether a function of torch runs recurrent layers, or one step of them."""
    return any(function is known for known in (*_OPS, *_CELLS))


def recurrent_call(
    function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> T | tuple[T, ...]:
    """The result of a call of PyTorch's function, as one op."""
    named = {**dict(zip(("input", "hx"), arguments, strict=False)), **keywords}
    data, states, settings = named.pop("input"), named.pop("hx"), arguments[2:]
    hx = list(states) if isinstance(states, (list, tuple)) else [states]
    if function in _OPS:
        return tuple(_OPS[function](data, hx, *settings, **named))
    result = _CELLS[function](data, hx, *settings, **named)
    return tuple(result) if len(result) > 1 else result[0]


def refuse_packed(function: Any) -> None:
    """Raise GraphError for the function that packs sequences."""
    if function is torch._VF._pack_padded_sequence:
        raise GraphError(f"{PACKED}{current_line()}")
