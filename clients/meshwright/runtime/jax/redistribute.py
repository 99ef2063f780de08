"""Redistributions as JAX functions whose backward pass runs the plan's steps for the gradient.

The gradient of a parameter has its own layout. It is the gradient of a `sink`: zeros in that layout
that no op reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax

A = jax.Array
Along = Callable[[A], A]


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def redistributed(local: A, forward: Along, backward: Along) -> A:
    """The redistribution of a local shard; the backward pass redistributes the gradient."""
    del backward
    return forward(local)


def _redistributed(local: A, forward: Along, backward: Along) -> tuple[A, None]:
    del backward
    return forward(local), None


def _back(forward: Along, backward: Along, _: None, sent: A) -> tuple[A]:
    del forward
    return (backward(sent),)


redistributed.defvjp(_redistributed, _back)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def parameter_read(local: A, sink: A, forward: Along, backward: Along) -> A:
    """A parameter in the layout of a reader; its gradient is that of the sink."""
    del sink, backward
    return forward(local)


def _read(local: A, sink: A, forward: Along, backward: Along) -> tuple[A, None]:
    del sink, backward
    return forward(local), None


def _into_sink(forward: Along, backward: Along, _: None, sent: A) -> tuple[None, A]:
    del forward
    return None, backward(sent)


parameter_read.defvjp(_read, _into_sink)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def summed(part: A, reduce: Along) -> A:
    """The sum over all devices, each of which uses it. The backward pass sums the gradients."""
    return reduce(part)


def _summed(part: A, reduce: Along) -> tuple[A, None]:
    return reduce(part), None


def _all_sums(reduce: Along, _: None, sent: A) -> tuple[A]:
    return (reduce(sent),)


summed.defvjp(_summed, _all_sums)
