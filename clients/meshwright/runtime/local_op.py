"""Local ops: one op on one rank, with its local inputs and the mesh axes on its factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from meshwright.runtime.arrays import Array, Reduction
from meshwright.runtime.redistribution_steps import Cause
from meshwright.schema import Axis, Mesh, OpPlan
from meshwright.schema.notation import Segments, Term
from meshwright.stages.op_axes import on_dims, on_reused, on_summed


@dataclass(frozen=True)
class LocalOp:
    """One op on one rank.

    call          the op with local inputs, in the class of its framework (`op`, `inputs`, `attrs`,
                  `shapes`)
    whole_shapes  the shapes of the inputs before sharding
    part          the index of this rank's part over some axes
    all_reduce    an all-reduce over some axes, with the cause for the log
    chunks        the number of chunks of the zigzag order of a causal mask's rows; None if the rows
                  are contiguous
    """

    call: Any
    planned: OpPlan
    terms: tuple[Term, ...]
    whole_shapes: Sequence[tuple[int, ...]]
    mesh: Mesh
    part: Callable[[Sequence[Axis]], Array | int]
    all_reduce: Callable[[Array, Sequence[Axis], Reduction, Cause], Array]
    chunks: int | None = None

    def axes(self, dims: Sequence[Segments]) -> tuple[Axis, ...]:
        """The axes on some dims of the rule, factor by factor, slowest first."""
        return on_dims(self.planned, dims)

    @cached_property
    def summed(self) -> tuple[Axis, ...]:
        """The axes on the factors that the op sums over."""
        return on_summed(self.planned)

    @cached_property
    def reused(self) -> tuple[Axis, ...]:
        """The axes on the factors whose statistics the op uses for every element."""
        return on_reused(self.planned)
