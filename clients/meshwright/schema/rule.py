"""Sharding rules: what an op computes over, in einops-like notation.

    rule    = terms "->" terms            terms of the inputs, then of the outputs, by commas
    term    = dim dim ...                 nothing at all for a scalar
    dim     = factor | 1 | ( product ) | ( product | product ... )
    product = factor factor ...           major first
    factor  = name [! ^ ~]... [@ name]

Each name is a *factor* of the iteration space; a factor that no output has is summed over, so that
sharding it leaves the output partial. Products in one dim are sub-dims; products parted by `|` are
segments that lie one behind the other (fused q|k|v), and axes lie on every segment alike. Markers
hold wherever the factor appears:

    !     must not be sharded here
    ^     reduced and used again inside the op: sharding it costs an all-reduce of statistics
    ~     shardable with a halo exchange; the extent may differ between inputs and outputs
    t@s   t follows the axes of s; the op moves the data of t itself (ring attention)

Example: `b s k, n k, n -> b s n` is a linear layer with bias.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NewType

from pydantic import Field, model_validator

from meshwright.schema.errors import GraphError, RuleError
from meshwright.schema.model import Model
from meshwright.schema.sizes import Size, evaluate, symbols_in

Factor = NewType("Factor", str)
Product = tuple[Factor, ...]
Segments = tuple[Product, ...]
Term = tuple[Segments, ...]
Shape = Sequence[int]

MAX_NOTATION = 20_000  # characters; chosen: a concat of 1,000 tensors still fits
_TOKEN = re.compile(r"\s*(?:(->)|([,()|@!^~])|([A-Za-z_][A-Za-z0-9_]*)|(1)(?![0-9A-Za-z_]))")


@dataclass(frozen=True, slots=True)
class Notation:
    """A parsed rule."""

    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]
    unsharded: frozenset[Factor]
    reused: frozenset[Factor]
    halo: frozenset[Factor]
    follows: Mapping[Factor, Factor]

    @property
    def terms(self) -> tuple[Term, ...]:
        return (*self.inputs, *self.outputs)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All factors in the order of their first appearance."""
        return tuple(
            dict.fromkeys(f for term in self.terms for dim in term for part in dim for f in part)
        )

    @property
    def summed(self) -> frozenset[Factor]:
        """Factors that no output has."""
        kept = {f for term in self.outputs for dim in term for part in dim for f in part}
        return frozenset(f for f in self.factors if f not in kept)


class ShardingRule(Model):
    """A rule and what else the planner has to know of the op.

    linear: groups of inputs in which the op is jointly linear, so that partial sums may pass
    through (`((0,), (1,))` for a product, `((0, 1),)` for a sum).
    saves_inputs, saves_outputs: positions of what the backward pass needs; inputs None = all.
    flops: of the forward pass, an expression in the factors; None = the iteration space, twice
    where a factor is summed.
    working_bytes: scratch memory of the forward pass, an expression in the factors.
    sizes: of factors that do not follow from the shapes (the groups of a group norm).
    """

    notation: str
    linear: tuple[tuple[int, ...], ...] = ()
    saves_inputs: tuple[int, ...] | None = None
    saves_outputs: tuple[int, ...] = ()
    flops: Size | None = None
    working_bytes: Size | None = None
    sizes: dict[str, int] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"notation": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _valid(self) -> ShardingRule:
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
        """The size of every factor, from the shapes; raises RuleError where they do not fit.

        The size of a halo factor is its extent in the first output that has it.
        """
        return _bind(self.notation, self.parsed, inputs, outputs, self.sizes)

    def flop_count(self, sizes: Mapping[str, int]) -> float:
        """FLOPs of one forward pass."""
        if self.flops is not None:
            return float(evaluate(self.flops, sizes))
        points = math.prod(float(sizes[f]) for f in self.parsed.factors)
        return 2 * points if self.parsed.summed else points

    def working_byte_count(self, sizes: Mapping[str, int]) -> int:
        """Bytes of scratch memory of one forward pass."""
        return 0 if self.working_bytes is None else evaluate(self.working_bytes, sizes)


@lru_cache(maxsize=65536)
def parse_notation(text: str) -> Notation:
    """The rule in `text`; raises RuleError naming the place that cannot be read."""
    if len(text) > MAX_NOTATION:
        raise RuleError(f"a rule has at most {MAX_NOTATION} characters, got {len(text)}")
    return _Parser(text).notation()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        self.position = 0
        self.marks: dict[str, set[Factor]] = {"!": set(), "^": set(), "~": set()}
        self.follows: dict[Factor, Factor] = {}
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise self._wrong(f"cannot read {stripped[at : at + 10]!r}", at)
            token = match.group().strip()
            self.tokens.append((token, match.end() - len(token)))
            at = match.end()

    def notation(self) -> Notation:
        inputs = self._terms(end="->")
        self._take("->")
        outputs = self._terms(end="")
        parsed = Notation(
            inputs,
            outputs,
            frozenset(self.marks["!"]),
            frozenset(self.marks["^"]),
            frozenset(self.marks["~"]),
            self.follows,
        )
        for follower, leader in self.follows.items():
            if leader not in parsed.factors:
                raise self._wrong(f"{follower} follows {leader}, which is no factor", 0)
            if leader in self.follows:
                raise self._wrong(f"{follower} follows {leader}, which follows itself", 0)
        return parsed

    def _terms(self, end: str) -> tuple[Term, ...]:
        terms = [self._term(end)]
        while self._peek() == ",":
            self._take(",")
            terms.append(self._term(end))
        return tuple(terms)

    def _term(self, end: str) -> Term:
        dims: list[Segments] = []
        seen: set[Factor] = set()
        while self._peek() not in (",", end):
            dim = self._dim()
            for product in dim:
                for factor in product:
                    if factor in seen:
                        raise self._wrong(f"factor {factor} stands in two dims of one tensor", 0)
            seen.update(f for product in dim for f in product)
            dims.append(dim)
        return tuple(dims)

    def _dim(self) -> Segments:
        if self._peek() != "(":
            return (self._product_of_one(),)
        self._take("(")
        segments: list[Product] = []
        product: list[Factor] = []
        while (token := self._peek()) != ")":
            if token in ("", "->", ",", "("):
                raise self._wrong("a ( is not closed", self._at())
            if token == "|":
                self._take("|")
                segments.append(tuple(product))
                product = []
            else:
                for factor in self._product_of_one():
                    if factor in product:
                        raise self._wrong(f"factor {factor} stands twice in a product", self._at())
                    product.append(factor)
        self._take(")")
        segments.append(tuple(product))
        return tuple(segments)

    def _product_of_one(self) -> Product:
        token = self._peek()
        if token == "1":
            self._take("1")
            return ()
        if not token or not (token[0].isalpha() or token[0] == "_"):
            raise self._wrong(f"expected a factor, found {token or 'the end'!r}", self._at())
        factor = Factor(self._take(token))
        while (mark := self._peek()) in self.marks and mark:
            self.marks[self._take(mark)].add(factor)
        if self._peek() == "@":
            self._take("@")
            leader = self._peek()
            if not leader or not (leader[0].isalpha() or leader[0] == "_"):
                raise self._wrong("expected a factor after @", self._at())
            self.follows[factor] = Factor(self._take(leader))
        return (factor,)

    def _peek(self) -> str:
        return self.tokens[self.position][0] if self.position < len(self.tokens) else ""

    def _at(self) -> int:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else len(self.text)

    def _take(self, expected: str) -> str:
        if self._peek() != expected:
            raise self._wrong(
                f"expected {expected!r}, found {self._peek() or 'the end'!r}", self._at()
            )
        self.position += 1
        return expected

    def _wrong(self, what: str, at: int) -> RuleError:
        shown = self.text if len(self.text) <= 120 else self.text[:117] + "..."
        return RuleError(f"rule {shown!r}: {what} (character {at})")


def _bind(
    text: str,
    parsed: Notation,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    given: Mapping[str, int],
) -> dict[Factor, int]:
    sizes: dict[Factor, int] = {Factor(name): size for name, size in given.items()}
    pending: list[tuple[str, Segments, int]] = []
    for side, terms, shapes in (
        ("output", parsed.outputs, outputs),
        ("input", parsed.inputs, inputs),
    ):
        if not shapes and terms == ((),):
            continue  # nothing before the arrow: a scalar, or no input at all
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
    """Check one dim, or learn its one unknown factor; False where too much is unknown."""
    unknown = {f for product in dim for f in product if f not in sizes}
    if not unknown:
        found = sum(math.prod(sizes[f] for f in product) for product in dim)
        halo = any(f in parsed.halo for product in dim for f in product)
        if found != size and not halo:
            shown = " | ".join(" ".join(f"{f}={sizes[f]}" for f in p) or "1" for p in dim)
            raise RuleError(f"rule {text!r}: {where} has the size {size}, but ({shown}) is {found}")
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
