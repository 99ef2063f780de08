"""Kernels of linear attention and of gated linear recurrences, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = Sequence[Array | None]


class _DeltaRule:
    """The inputs of every head, with the states before and after the update of each step.

    decayed: exp(decay) times the state before, [t, b, h, k, v]. errors: beta (v - S^T k), [t, b, h,
    v]. states: after each step; the first is zero.
    """

    def __init__(self, call: KernelCall) -> None:
        query, key, self.value, decay, self.beta = call.inputs
        self.heads = self.value.shape[2] // key.shape[2]
        self.query, self.key = (np.repeat(x, self.heads, axis=2) for x in (query, key))
        self.rate = np.exp(decay if decay.ndim == 4 else decay[..., None])[..., None]
        shape = (len(self.value), *self.key.shape[2:], self.value.shape[-1])
        self.states, self.decayed, self.errors = [np.zeros(shape)], [], []
        for t in range(self.value.shape[1]):
            decayed = self.rate[:, t] * self.states[-1]
            read = np.einsum("bhkv,bhk->bhv", decayed, self.key[:, t])
            error = (self.value[:, t] - read) * self.beta[:, t, :, None]
            self.decayed.append(decayed)
            self.errors.append(error)
            self.states.append(decayed + np.einsum("bhk,bhv->bhkv", self.key[:, t], error))


def _delta_rule(call: KernelCall) -> Array:
    rule = _DeltaRule(call)
    return np.asarray(np.einsum("tbhkv,bthk->bthv", np.stack(rule.states[1:]), rule.query))


def _delta_rule_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Backward through time; `back` is the gradient of the state after step t."""
    rule = _DeltaRule(call)
    dq, dk = np.zeros(rule.query.shape), np.zeros(rule.key.shape)
    dv, dbeta = np.zeros(rule.value.shape), np.zeros(rule.beta.shape)
    drate = np.zeros(rule.key.shape)
    back = np.zeros(rule.states[0].shape)
    for t in reversed(range(rule.value.shape[1])):
        g, key, beta = sent[0][:, t], rule.key[:, t], rule.beta[:, t, :, None]
        dq[:, t] = np.einsum("bhkv,bhv->bhk", rule.states[t + 1], g)
        back = back + np.einsum("bhk,bhv->bhkv", rule.query[:, t], g)
        dk[:, t] = np.einsum("bhkv,bhv->bhk", back, rule.errors[t])
        derror = np.einsum("bhkv,bhk->bhv", back, key)
        read = np.einsum("bhkv,bhk->bhv", rule.decayed[t], key)
        dbeta[:, t] = (derror * (rule.value[:, t] - read)).sum(axis=-1)
        dv[:, t] = derror * beta
        dk[:, t] -= np.einsum("bhkv,bhv->bhk", rule.decayed[t], dv[:, t])
        back = back - np.einsum("bhk,bhv->bhkv", key, dv[:, t])
        drate[:, t] = (back * rule.decayed[t]).sum(axis=-1)
        back = back * rule.rate[:, t]
    groups = (*call.inputs[1].shape[:3], rule.heads, call.inputs[1].shape[3])
    ddecay = drate if call.inputs[3].ndim == 4 else drate.sum(axis=-1)
    return dq.reshape(groups).sum(axis=3), dk.reshape(groups).sum(axis=3), dv, ddecay, dbeta


def _recurrence(call: KernelCall) -> Array:
    x, gate = call.inputs
    state, outputs = np.zeros(x[:, 0].shape), []
    for t in range(x.shape[1]):
        state = gate[:, t] * state + x[:, t]
        outputs.append(state)
    return np.stack(outputs, axis=1)


def _recurrence_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    x, gate = call.inputs
    dx, dgate = np.zeros(x.shape), np.zeros(gate.shape)
    back = np.zeros(x[:, 0].shape)
    for t in reversed(range(x.shape[1])):
        back = back + sent[0][:, t]
        dx[:, t] = back
        if t:
            dgate[:, t] = back * outputs[0][:, t - 1]
        back = back * gate[:, t]
    return dx, dgate


LINEAR_ATTENTION: Mapping[str, OpKernel] = {
    "gated_delta_rule": OpKernel(_delta_rule, _delta_rule_gradients),
    "linear_recurrence": OpKernel(_recurrence, _recurrence_gradients),
}
