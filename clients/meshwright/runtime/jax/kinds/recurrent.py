"""Kernels of recurrent layers; `meshwright.schema.recurrent_inputs` has their inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.kinds.call import JaxOpCall, Kernel
from meshwright.schema.recurrent_inputs import RecurrentInputs

A = jax.Array
State = tuple[A, ...]
Cell = Callable[[State, A, A], State]  # the state, the input's product, the state's product


def _lstm(projection: A | None) -> Cell:
    def step(state: State, z: A, recurrent: A) -> State:
        i, f, g, o = jnp.split(z + recurrent, 4, axis=-1)
        c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return h if projection is None else h @ projection.T, c

    return step


def _gru(state: State, z: A, recurrent: A) -> State:
    zr, zu, zn = jnp.split(z, 3, axis=-1)
    hr, hu, hn = jnp.split(recurrent, 3, axis=-1)
    update = jax.nn.sigmoid(zu + hu)
    new = jnp.tanh(zn + jax.nn.sigmoid(zr + hr) * hn)
    return ((1 - update) * new + update * state[0],)


def _rnn(activation: Callable[[A], A]) -> Cell:
    return lambda _, z, recurrent: (activation(z + recurrent),)


def _layer(call: JaxOpCall, *, kind: str) -> list[A]:
    inputs = RecurrentInputs.of(kind, call.inputs, call.attrs)
    cell: Cell = _gru
    if kind == "lstm":
        cell = _lstm(inputs.weight_hr)
    elif kind == "rnn":
        cell = _rnn(jax.nn.relu if call.attrs["nonlinearity"] == "relu" else jnp.tanh)

    def step(state: State, z: A) -> tuple[State, A]:
        recurrent = state[0] @ inputs.weight_hh.T
        if inputs.bias_hh is not None:
            recurrent = recurrent + inputs.bias_hh
        state = cell(state, z, recurrent)
        return state, state[0]

    z = inputs.x @ inputs.weight_ih.T
    if inputs.bias_ih is not None:
        z = z + inputs.bias_ih
    states = [state for state in (inputs.h0, inputs.c0) if state is not None]
    ends = call.shapes[1:3] if kind == "lstm" else call.shapes[1:2]
    first = tuple(states or [jnp.zeros(shape, z.dtype) for shape in ends])
    last, y = lax.scan(step, first, z.swapaxes(0, 1), reverse=call.attrs["reverse"])
    reserve = [jnp.zeros(shape, z.dtype) for shape in call.shapes[1 + len(ends) :]]
    return [y.swapaxes(0, 1), *last, *reserve]


KERNELS: dict[str, Kernel] = {kind: partial(_layer, kind=kind) for kind in ("lstm", "gru", "rnn")}
