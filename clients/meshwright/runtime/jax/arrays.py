"""The array functions of sharded kernels, in JAX."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.arrays import Reduce
from meshwright.runtime.jax.kinds import JaxOpCall, results_of
from meshwright.runtime.jax.kinds.layers import attention, rows_of_cross_entropy
from meshwright.runtime.jax.redistribute import summed
from meshwright.runtime.jax.vocab_parallel_loss import vocab_parallel_losses
from meshwright.runtime.local_op import LocalOp

A = jax.Array


class JaxArrays:
    """Implements `meshwright.runtime.arrays.Arrays`."""

    def outputs(self, call: JaxOpCall) -> Sequence[A]:
        return results_of(call)

    def sum(self, x: A, dims: Sequence[int], *, keepdims: bool) -> A:
        return x.sum(axis=tuple(dims), keepdims=keepdims)

    def max(self, x: A, dim: int) -> A:
        return lax.stop_gradient(x).max(dim, keepdims=True)

    def exp(self, x: A) -> A:
        return jnp.exp(x)

    def log(self, x: A) -> A:
        return jnp.log(x)

    def rsqrt(self, x: A) -> A:
        return lax.rsqrt(x)

    def cast(self, x: A, dtype: jnp.dtype[Any]) -> A:
        return x.astype(dtype)

    def stack(self, items: Sequence[A]) -> A:
        return jnp.stack(items)

    def split(self, x: A, lengths: Sequence[int], dim: int) -> Sequence[A]:
        return jnp.split(x, list(accumulate(lengths))[:-1], axis=dim)

    def index(self, x: A) -> A:
        return x

    def zero_unless(self, condition: A, x: A) -> A:
        return jnp.where(condition, x, 0)

    def rows(self, table: A, ids: A) -> A:
        return table[ids]

    def along(self, x: A, index: A, dim: int) -> A:
        return jnp.take_along_axis(x, index, axis=dim)

    def row_losses(self, logits: A, labels: A, ignored: int) -> A:
        return rows_of_cross_entropy(logits, labels, ignored)

    def vocab_parallel_losses(self, logits: A, places: A, counted: A, reduce: Reduce) -> A:
        return vocab_parallel_losses(logits, places, counted, reduce)

    def sum_over_ranks(self, part: A, reduce: Reduce) -> A:
        return summed(part, lambda local: reduce(local, "sum"))

    def attention(self, op: LocalOp) -> Sequence[A]:
        first_row = op.part(op.axes(op.terms[0][2:3])) * op.call.x.shape[2]
        return [attention(op.call, first_row)]
