"""Kernels of recurrent kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from meshwright.capture.interpreter.run import Kernel, TorchOpCall
from meshwright.schema.recurrent_inputs import GATES, RESERVE, RecurrentInputs

T = torch.Tensor


def selective_scan(x: T, dt: T, a: T, b: T, c: T) -> T:
    """Selective scan: state = exp(dt a) state + dt x b, y = sum over n of c state.

    Shapes: x [b, t, h, p], dt [b, t, h], a [h, n or 1], b and c [b, t, g, n]; y like x. Groups of
    h / g heads share b and c.
    """
    heads = x.shape[2] // b.shape[2]
    b, c = (tensor.repeat_interleave(heads, dim=2) for tensor in (b, c))
    decay = torch.exp(dt[..., None] * a)[:, :, :, None]
    updates = (dt[..., None] * x)[..., None] * b[:, :, :, None]
    state = torch.zeros_like(updates[:, 0])
    outputs = []
    for step in range(x.shape[1]):
        state = decay[:, step] * state + updates[:, step]
        outputs.append((state * c[:, step, :, None]).sum(-1))
    return torch.stack(outputs, 1)


def _recurrent_layer(run: TorchOpCall, *, kind: str) -> list[T]:
    """One layer in one direction by PyTorch's own kernel; the reserve takes no memory."""
    inputs = RecurrentInputs.of(kind, run.inputs, run.attrs)
    x = inputs.x.flip(1) if run.attrs["reverse"] else inputs.x
    widths = [inputs.weight_hh.shape[1]]
    if kind == "lstm":
        widths.append(inputs.weight_ih.shape[0] // GATES[kind])
    given = [state for state in (inputs.h0, inputs.c0) if state is not None]
    states = given or [x.new_zeros(x.shape[0], width) for width in widths]
    states = [state[None].contiguous() for state in states]
    function = _FUNCTIONS[run.attrs.get("nonlinearity", kind)]
    y, *last = function(
        x,
        states if kind == "lstm" else states[0],
        inputs.weights(),
        has_biases=inputs.bias_ih is not None,
        num_layers=1,
        dropout=0.0,
        train=True,
        bidirectional=False,
        batch_first=True,
    )
    hidden = inputs.weight_ih.shape[0] // GATES[kind]
    reserve = [y.new_zeros(()).expand(*y.shape[:2], RESERVE[kind] * hidden)] * bool(RESERVE[kind])
    return [y.flip(1) if run.attrs["reverse"] else y, *(state[0] for state in last), *reserve]


_FUNCTIONS: dict[str, Callable[..., tuple[T, ...]]] = {
    "lstm": torch.lstm,
    "gru": torch.gru,
    "tanh": torch.rnn_tanh,
    "relu": torch.rnn_relu,
}

KERNELS: dict[str, Kernel] = {
    "selective_scan": lambda run: selective_scan(*run.inputs),
    **{kind: partial(_recurrent_layer, kind=kind) for kind in GATES},
}
