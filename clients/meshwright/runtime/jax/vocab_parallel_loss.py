"""Vocab-parallel cross entropy: the loss of logits whose classes are sharded.

The loss of a row is l = log(sum_c exp(x_c - m)) + m - x_label. The maximum m is reduced first, then
the sum and the label's logit together. The backward pass needs no communication.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from meshwright.runtime.arrays import Reduce

A = jax.Array


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def vocab_parallel_losses(logits: A, places: A, counted: A, reduce: Reduce) -> A:
    """The loss (r,) of every row of logits (r, v / parts); 0 for an ignored label.

    `places` (r,) are the indices of the labels among the classes of this device, out of range if
    another device has the class. `counted` (r,) is False for an ignored label.
    """
    return _losses(logits, places, counted, reduce)[0]


def _losses(logits: A, places: A, counted: A, reduce: Reduce) -> tuple[A, tuple[A, A, A]]:
    largest = reduce(logits.max(axis=1), "max")
    powers = jnp.exp(logits - largest[:, None])
    is_label = jnp.arange(logits.shape[1]) == places[:, None]
    picked = (logits * is_label).sum(axis=1)
    total, label = reduce(jnp.stack([powers.sum(axis=1), picked]), "sum")
    losses = (jnp.log(total) + largest - label) * counted
    return losses, (powers / total[:, None], places, counted)


def _gradients(_reduce: Reduce, saved: tuple[A, A, A], sent: A) -> tuple[A, None, None]:
    shares, places, counted = saved
    is_label = jnp.arange(shares.shape[1]) == places[:, None]
    return (shares - is_label) * (sent * counted)[:, None], None, None


vocab_parallel_losses.defvjp(_losses, _gradients)
