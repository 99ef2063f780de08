"""Kernels of recurrent layers, step by step.

Arrays are time-major inside: [t, b, ...]. `meshwright.schema.recurrent_inputs` has the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from meshwright.schema.recurrent_inputs import RecurrentInputs
from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = Sequence[Array | None]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _time_major(x: Array, call: KernelCall) -> Array:
    """[b, t, ...] as [t, b, ...] in the order of the steps, and the other way round."""
    swapped = np.swapaxes(x, 0, 1)
    return swapped[::-1] if call.attrs.get("reverse") else swapped


def _batch_major(x: Array, call: KernelCall) -> Array:
    return np.swapaxes(x[::-1] if call.attrs.get("reverse") else x, 0, 1)


class _Layer:
    """A layer with its inputs, the states before each step and after the last, and its gates.

    z: the products of inputs [t, b, g h], with their bias. hidden: [t + 1, b, p]. cells: of `lstm`,
    [t + 1, b, h]. gates: what each step computes, after their activations.
    """

    def __init__(self, call: KernelCall, kind: str) -> None:
        self.inputs = inputs = RecurrentInputs.of(kind, call.inputs, call.attrs)
        self.kind = kind
        self.is_relu = call.attrs.get("nonlinearity") == "relu"
        self.x = _time_major(inputs.x, call)
        self.z = self.x @ inputs.weight_ih.T + _or_zero(inputs.bias_ih)
        batch, width = call.x.shape[0], call.output_shapes[1][1]
        first = np.zeros((batch, width)) if inputs.h0 is None else inputs.h0
        self.hidden = [first]
        self.gates: list[Array] = []
        self.cells: list[Array] = []
        if kind == "lstm":
            hidden = call.output_shapes[2][1]
            self.cells.append(np.zeros((batch, hidden)) if inputs.c0 is None else inputs.c0)
        for z in self.z:
            self._step(z, self.hidden[-1] @ inputs.weight_hh.T + _or_zero(inputs.bias_hh))

    def _step(self, z: Array, recurrent: Array) -> None:
        if self.kind == "lstm":
            i, f, g, o = np.split(z + recurrent, 4, axis=-1)
            gates = [_sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)]
            self.cells.append(gates[1] * self.cells[-1] + gates[0] * gates[2])
            state = gates[3] * np.tanh(self.cells[-1])
            projection = self.inputs.weight_hr
            self.hidden.append(state if projection is None else state @ projection.T)
        elif self.kind == "gru":
            (zr, zu, zn), (hr, hu, hn) = (np.split(part, 3, axis=-1) for part in (z, recurrent))
            r, u = _sigmoid(zr + hr), _sigmoid(zu + hu)
            n = np.tanh(zn + r * hn)
            gates = [r, u, n, hn]
            self.hidden.append((1 - u) * n + u * self.hidden[-1])
        else:
            total = z + recurrent
            gates = [np.maximum(total, 0) if self.is_relu else np.tanh(total)]
            self.hidden.append(gates[0])
        self.gates.append(np.stack(gates))


def _or_zero(bias: Array | None) -> Array | float:
    return 0.0 if bias is None else bias


def _forward(call: KernelCall, *, kind: str) -> list[Array]:
    layer = _Layer(call, kind)
    y = _batch_major(np.stack(layer.hidden[1:]), call)
    last = [layer.cells[-1]] if layer.cells else []
    reserve = [np.zeros(shape) for shape in call.output_shapes[2 + len(last) :]]
    return [y, layer.hidden[-1], *last, *reserve]


def _backward(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array], *, kind: str
) -> Gradients:
    """Backward through time; `dh` and `dc` are the gradients of the states after step t."""
    layer = _Layer(call, kind)
    inputs = layer.inputs
    dy, dh = _time_major(sent[0], call), sent[1].copy()
    dc = sent[2].copy() if kind == "lstm" else np.zeros(0)
    dz = np.zeros(layer.z.shape)
    by_hidden = np.zeros(layer.z.shape)
    d_hr = None if inputs.weight_hr is None else np.zeros(inputs.weight_hr.shape)
    for t in reversed(range(len(layer.z))):
        dh = dh + dy[t]
        before = layer.hidden[t]
        if kind == "lstm":
            i, f, g, o = layer.gates[t]
            squashed = np.tanh(layer.cells[t + 1])
            if inputs.weight_hr is not None and d_hr is not None:
                d_hr += dh.T @ (o * squashed)
                dh = dh @ inputs.weight_hr
            dc = dc + dh * o * (1 - squashed**2)
            parts = (dc * g * i * (1 - i), dc * layer.cells[t] * f * (1 - f),
                     dc * i * (1 - g**2), dh * squashed * o * (1 - o))  # fmt: skip
            dz[t] = by_hidden[t] = np.concatenate(parts, axis=-1)
            dc = dc * f
            direct = np.zeros(before.shape)
        elif kind == "gru":
            r, u, n, hn = layer.gates[t]
            dn = dh * (1 - u) * (1 - n**2)
            du = dh * (before - n) * u * (1 - u)
            dr = dn * hn * r * (1 - r)
            dz[t] = np.concatenate((dr, du, dn), axis=-1)
            by_hidden[t] = np.concatenate((dr, du, dn * r), axis=-1)
            direct = dh * u
        else:
            slope = layer.gates[t][0] > 0 if layer.is_relu else 1 - layer.gates[t][0] ** 2
            dz[t] = by_hidden[t] = dh * slope
            direct = np.zeros(before.shape)
        dh = by_hidden[t] @ inputs.weight_hh + direct
    hidden = np.stack(layer.hidden[:-1])
    gradients = {
        "x": _batch_major(dz @ inputs.weight_ih, call),
        "weight_ih": np.einsum("tbg,tbi->gi", dz, layer.x),
        "weight_hh": np.einsum("tbg,tbp->gp", by_hidden, hidden),
        "bias_ih": dz.sum(axis=(0, 1)),
        "bias_hh": by_hidden.sum(axis=(0, 1)),
        "weight_hr": d_hr,
        "h0": dh,
        "c0": dc,
    }
    return [gradient for name, gradient in gradients.items() if getattr(inputs, name) is not None]


RECURRENT: Mapping[str, OpKernel] = {
    kind: OpKernel(partial(_forward, kind=kind), partial(_backward, kind=kind))
    for kind in ("lstm", "gru", "rnn")
}
