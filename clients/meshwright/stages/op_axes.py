"""The mesh axes on the dims and factors of an op, by its rule and strategy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from meshwright.schema import Axis, OpPlan, parse_notation
from meshwright.schema.notation import Segments


def on_dims(planned: OpPlan, dims: Sequence[Segments]) -> tuple[Axis, ...]:
    """The axes on some dims of the rule, factor by factor, slowest first."""
    factors = dict.fromkeys(f for dim in dims for product in dim for f in product)
    return _on(planned, factors)


def on_summed(planned: OpPlan) -> tuple[Axis, ...]:
    """The axes on the factors that the op sums over."""
    return _within(planned, parse_notation(planned.rule or "").summed)


def on_reused(planned: OpPlan) -> tuple[Axis, ...]:
    """The axes on the factors that the op reduces and uses again."""
    return _within(planned, parse_notation(planned.rule or "").reused)


def _within(planned: OpPlan, factors: Collection[str]) -> tuple[Axis, ...]:
    return _on(planned, (f for f in planned.strategy if f in factors))


def _on(planned: OpPlan, factors: Iterable[str]) -> tuple[Axis, ...]:
    return tuple(axis for f in factors for axis in planned.strategy.get(f, ()))
