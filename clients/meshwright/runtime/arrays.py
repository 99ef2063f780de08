"""The functions of an array framework that the kernels of sharded ops need.

Operators, `shape`, `reshape` and `sum()` are methods of the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from meshwright.runtime.local_op import LocalOp

Array = Any  # torch.Tensor or jax.Array
Reduction = Literal["sum", "max"]
Reduce = Callable[[Array, Reduction], Array]  # over the ranks that share the reduced dims


class Arrays(Protocol):
    """The array functions of one framework. No method has side effects."""

    def outputs(self, call: Any) -> Sequence[Array]:
        """The outputs of a whole op."""

    def sum(self, x: Array, dims: Sequence[int], *, keepdims: bool) -> Array:
        """The sum over some dims."""

    def max(self, x: Array, dim: int) -> Array:
        """The maximum along a dim, which stays with length 1. It has no gradient."""

    def exp(self, x: Array) -> Array:
        """e to the power of each element."""

    def log(self, x: Array) -> Array:
        """The natural logarithm of each element."""

    def rsqrt(self, x: Array) -> Array:
        """1 / sqrt(x) of each element."""

    def cast(self, x: Array, dtype: Any) -> Array:
        """The same elements in another dtype."""

    def stack(self, items: Sequence[Array]) -> Array:
        """Arrays of one shape along a new first dim."""

    def split(self, x: Array, lengths: Sequence[int], dim: int) -> Sequence[Array]:
        """Parts of these lengths along a dim."""

    def index(self, x: Array) -> Array:
        """Indices in a dtype that can hold negative ones."""

    def zero_unless(self, condition: Array, x: Array) -> Array:
        """x if the condition is true, otherwise 0, for each element."""

    def rows(self, table: Array, ids: Array) -> Array:
        """The rows of a table (r, d) at ids (...): (..., d)."""

    def along(self, x: Array, index: Array, dim: int) -> Array:
        """The elements of x at an index along a dim."""

    def attention(self, op: LocalOp) -> Sequence[Array]:
        """Causal attention of the query rows of this rank."""

    def row_losses(self, logits: Array, labels: Array, ignored: int) -> Array:
        """The cross entropy (r,) of every row of logits (r, v); 0 if the label is ignored."""

    def vocab_parallel_losses(
        self, logits: Array, places: Array, counted: Array, reduce: Reduce
    ) -> Array:
        """The cross entropy (r,) of every row of logits (r, v / parts) with sharded classes.

        `places` (r,) are the indices of the labels among the classes of this rank, out of range if
        another rank has the class. `counted` (r,) is False for an ignored label.
        """

    def sum_over_ranks(self, part: Array, reduce: Reduce) -> Array:
        """The sum over the ranks. Every rank uses it, so that gradients are summed as well."""
