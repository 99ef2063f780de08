"""Mixtures of experts with balanced round-robin routing.

Where a token goes does not depend on the values of the index, which are made up anyway. A sequence
of s tokens and the c slots of an expert are cut into gcd(s, c) equal blocks. Choice j of token t
stands at place p = t*k + j of its block and goes to slot p // e of expert p % e in that block; what
finds no slot is dropped. An equal part of the sequence fills the same part of every expert's slots,
so it does not matter which device computes which part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]


@dataclass(frozen=True, slots=True)
class _Routes:
    """Token, choice, expert and slot of all choices that are not dropped."""

    token: Array
    choice: Array
    expert: Array
    slot: Array


def _routes(length: int, choices: int, experts: int, slots: int) -> _Routes:
    blocks = max(1, math.gcd(length, slots))
    tokens, rows = length // blocks, slots // blocks
    place = np.arange(min(tokens * choices, experts * rows))
    block = np.repeat(np.arange(blocks), len(place))
    place = np.tile(place, blocks)
    return _Routes(
        block * tokens + place // choices,
        place % choices,
        place % experts,
        block * rows + place // experts,
    )


def _dispatch_routes(call: KernelCall) -> _Routes:
    experts, _, slots, _ = call.shape
    return _routes(call.x.shape[1], call.inputs[1].shape[2], experts, slots)


def _dispatch(call: KernelCall) -> Array:
    """x [b, s, h], index [b, s, k] -> [e, b, c, h]."""
    routes = _dispatch_routes(call)
    slots = np.zeros(call.shape)
    slots[routes.expert, :, routes.slot] = np.moveaxis(call.x[:, routes.token], 1, 0)
    return slots


def _dispatch_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    routes = _dispatch_routes(call)
    tokens = np.zeros((call.x.shape[1], call.x.shape[0], call.x.shape[2]))
    np.add.at(tokens, routes.token, sent[0][routes.expert, :, routes.slot])
    return (np.swapaxes(tokens, 0, 1), None)


def _combine_routes(call: KernelCall) -> _Routes:
    experts, _, slots, _ = call.x.shape
    _, length, choices = call.inputs[1].shape
    return _routes(length, choices, experts, slots)


def _combine(call: KernelCall) -> Array:
    """y [e, b, c, h], index and weight [b, s, k] -> [b, s, h]: the weighted way back."""
    routes = _combine_routes(call)
    weight = call.inputs[2][:, routes.token, routes.choice]
    tokens = np.zeros((call.shape[1], call.shape[0], call.shape[2]))
    np.add.at(tokens, routes.token, call.x[routes.expert, :, routes.slot] * weight.T[..., None])
    return np.swapaxes(tokens, 0, 1)


def _combine_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    routes = _combine_routes(call)
    weight = call.inputs[2][:, routes.token, routes.choice]
    tokens = np.moveaxis(sent[0][:, routes.token], 1, 0)
    rows = np.zeros(call.x.shape)
    rows[routes.expert, :, routes.slot] = tokens * weight.T[..., None]
    weights = np.zeros(call.inputs[2].shape)
    taken = call.x[routes.expert, :, routes.slot]
    weights[:, routes.token, routes.choice] = (taken * tokens).sum(axis=-1).T
    return rows, None, weights


MIXTURE: Mapping[str, OpKernel] = {
    "moe_dispatch": OpKernel(_dispatch, _dispatch_gradients),
    "moe_combine": OpKernel(_combine, _combine_gradients),
}
