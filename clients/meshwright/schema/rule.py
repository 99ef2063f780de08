"""Sharding rules: a notation of factors, and the costs that it does not imply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from meshwright.schema.errors import GraphError, RuleError
from meshwright.schema.model import Model, Whole
from meshwright.schema.notation import Factor, Notation, Segments, parse_notation
from meshwright.schema.sizes import Size, evaluate, symbols_in

Shape = Sequence[int]


class ShardingRule(Model):
    """A sharding rule: the notation, and the costs that the notation does not imply."""

    notation: str = Field(
        description="The factors of each dim of the inputs and outputs, as in einops."
    )
    linear: tuple[tuple[Whole, ...], ...] = Field(
        default=(),
        description="The groups of inputs in which the op is jointly linear, so that partial sums "
        "may pass through: `((0,), (1,))` for a product, `((0, 1),)` for a sum.",
    )
    saves_inputs: tuple[Whole, ...] | None = Field(
        default=None,
        description="The positions of the inputs that the backward pass needs. None: all.",
    )
    saves_outputs: tuple[Whole, ...] = Field(
        default=(), description="The positions of the outputs that the backward pass needs."
    )
    flops: Size | None = Field(
        default=None,
        description="The FLOP of the forward pass, as an expression in the factors. None: the "
        "size of the iteration space, twice that if a factor is summed.",
    )
    working_bytes: Size | None = Field(
        default=None,
        description="The workspace of the forward pass in bytes, as an expression in the local "
        "sizes of the factors. It counts in peak memory.",
    )
    sizes: dict[str, Whole] = Field(
        default_factory=dict,
        description="The sizes of factors that the shapes do not imply, such as the groups of a "
        "group norm.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"notation": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> ShardingRule:
        parsed = self.parsed
        ports = (
            ("linear", [i for group in self.linear for i in group], len(parsed.inputs)),
            ("saves_inputs", list(self.saves_inputs or ()), len(parsed.inputs)),
            ("saves_outputs", list(self.saves_outputs), len(parsed.outputs)),
        )
        for field, positions, count in ports:
            for position in positions:
                if not 0 <= position < count:
                    raise RuleError(
                        f"rule {self.notation!r}: {field} names position {position}, "
                        f"there are {count}"
                    )
        for name, size in self.sizes.items():
            if name not in parsed.factors or size < 1:
                raise RuleError(f"rule {self.notation!r}: sizes gives {name} = {size}")
        for field, expression in (("flops", self.flops), ("working_bytes", self.working_bytes)):
            try:
                unknown = symbols_in(1 if expression is None else expression) - set(parsed.factors)
            except GraphError as wrong:
                raise RuleError(f"rule {self.notation!r}: {field}: {wrong.detail}") from None
            if unknown:
                raise RuleError(
                    f"rule {self.notation!r}: {field} uses {sorted(unknown)}, the factors are "
                    f"{', '.join(parsed.factors)}"
                )
        return self

    @property
    def parsed(self) -> Notation:
        return parse_notation(self.notation)

    def bind(self, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> dict[Factor, int]:
        """The size of every factor in elements, from the shapes of the tensors.

        The size of a halo factor is its extent in the first output that has it. Raises RuleError if
        the shapes do not match the rule.
        """
        return _bind(self.notation, self.parsed, inputs, outputs, self.sizes)

    def flop_count(self, sizes: Mapping[str, int]) -> float:
        """The FLOP of one forward pass."""
        if self.flops is not None:
            return float(evaluate(self.flops, sizes))
        points = math.prod(float(sizes[f]) for f in self.parsed.factors)
        return 2 * points if self.parsed.summed else points

    def working_byte_count(self, sizes: Mapping[str, int]) -> int:
        """The workspace of one forward pass, in bytes."""
        return 0 if self.working_bytes is None else evaluate(self.working_bytes, sizes)


def _bind(
    text: str,
    parsed: Notation,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    explicit: Mapping[str, int],
) -> dict[Factor, int]:
    sizes: dict[Factor, int] = {Factor(name): size for name, size in explicit.items()}
    pending: list[tuple[str, Segments, int]] = []
    for side, terms, shapes in (
        ("output", parsed.outputs, outputs),
        ("input", parsed.inputs, inputs),
    ):
        if not shapes and terms == ((),):
            continue  # an empty left side: a scalar input or no input
        if len(terms) != len(shapes):
            raise RuleError(f"rule {text!r} has {len(terms)} {side}s, the op has {len(shapes)}")
        for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
            if len(term) != len(shape):
                raise RuleError(
                    f"rule {text!r}: {side} {position} has {len(term)} dims in the rule and the "
                    f"shape {list(shape)}"
                )
            pending += [
                (f"{side} {position} dim {d}", dim, size)
                for d, (dim, size) in enumerate(zip(term, shape, strict=True))
            ]
    while pending:
        later: list[tuple[str, Segments, int]] = []
        for where, dim, size in pending:
            if not _solve(text, parsed, where, dim, size, sizes):
                later.append((where, dim, size))
        if len(later) == len(pending):
            unknown = sorted({f for _, dim, _ in later for p in dim for f in p if f not in sizes})
            raise RuleError(
                f"rule {text!r}: the sizes of {', '.join(unknown)} do not follow from the shapes; "
                "a product needs all of its factors but one to stand elsewhere"
            )
        pending = later
    return {factor: sizes[factor] for factor in parsed.factors}


def _solve(
    text: str,
    parsed: Notation,
    where: str,
    dim: Segments,
    size: int,
    sizes: dict[Factor, int],
) -> bool:
    """Check one dim, or derive its only unknown factor; False if several factors are unknown."""
    unknown = {f for product in dim for f in product if f not in sizes}
    if not unknown:
        total = sum(math.prod(sizes[f] for f in product) for product in dim)
        halo = any(f in parsed.halo for product in dim for f in product)
        if total != size and not halo:
            terms = " | ".join(" ".join(f"{f}={sizes[f]}" for f in p) or "1" for p in dim)
            raise RuleError(f"rule {text!r}: {where} has the size {size}, but ({terms}) is {total}")
        return True
    if len(unknown) > 1:
        return False
    factor = next(iter(unknown))
    known = sum(math.prod(sizes[f] for f in p) for p in dim if factor not in p)
    per_unit = sum(math.prod(sizes[f] for f in p if f != factor) for p in dim if factor in p)
    value, rest = divmod(size - known, per_unit)
    if rest or value < 1:
        raise RuleError(
            f"rule {text!r}: {where} has the size {size}, which leaves no whole number for {factor}"
        )
    sizes[factor] = value
    return True
