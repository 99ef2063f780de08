"""The notation of sharding rules: the iteration space of an op, similar to einops.

    rule    = terms "->" terms            terms of the inputs, then of the outputs, by commas
    term    = dim dim ...                 empty for a scalar
    dim     = factor | 1 | ( product ) | ( product | product ... )
    product = factor factor ...           major first
    factor  = name [! ^ ~]... [@ name] [@ name ?]...

Each name is a *factor* of the iteration space. The op sums over a factor that no output has, so
that its sharding leaves the output partial. Products in one dim are sub-dims. Products separated by
`|` are concatenated segments (fused q|k|v), which the axes shard in the same way. Markers apply to
a factor wherever it appears:

    !     the factor cannot be sharded
    ^     reduced and used again inside the op: its sharding costs an all-reduce of statistics
    ~     sharded with a halo exchange; the extent may differ between inputs and outputs
    t@s   t follows the axes of s: t is aligned with s, without communication
    t@s?  t may follow the axes of s; the op then moves the data of t itself. Inputs that have t
          but not s move around the group (ring attention), and indices fetch their rows
          (row-sharded embedding). A tensor with both s and t is sharded on s only.
          `t!@s?`: t is unsharded otherwise. `v@b?@c?`: v may follow b or c.

Example: `b s k, n k, n -> b s n` is a linear layer with bias.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NewType

from meshwright.schema.errors import RuleError

Factor = NewType("Factor", str)
Product = tuple[Factor, ...]
Segments = tuple[Product, ...]
Term = tuple[Segments, ...]

MAX_NOTATION = 20_000  # characters; chosen: enough for a concat of 1,000 tensors
_TOKEN = re.compile(r"\s*(?:(->)|([,()|@!^~?])|([A-Za-z_][A-Za-z0-9_]*)|(1)(?![0-9A-Za-z_]))")


@dataclass(frozen=True, slots=True)
class Notation:
    """A parsed sharding rule.

    `follows` maps a follower to its leader, `may_follow` a follower to its possible leaders.
    """

    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]
    unsharded: frozenset[Factor]
    reused: frozenset[Factor]
    halo: frozenset[Factor]
    follows: Mapping[Factor, Factor]
    may_follow: Mapping[Factor, tuple[Factor, ...]]

    @property
    def terms(self) -> tuple[Term, ...]:
        return (*self.inputs, *self.outputs)

    def terms_of(self, tensors: int) -> tuple[Term, ...]:
        """The terms of an op with this number of tensors, inputs first.

        An empty left side stands for a scalar input or for no input.
        """
        return self.terms[-tensors:] if self.inputs == ((),) else self.terms

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All factors in the order of their first appearance."""
        return tuple(
            dict.fromkeys(f for term in self.terms for dim in term for part in dim for f in part)
        )

    @property
    def summed(self) -> frozenset[Factor]:
        """The factors that no output has."""
        in_outputs = {f for term in self.outputs for dim in term for part in dim for f in part}
        return frozenset(f for f in self.factors if f not in in_outputs)


@lru_cache(maxsize=65536)
def parse_notation(text: str) -> Notation:
    """The rule in `text`; raises RuleError with the position of a syntax error."""
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
        self.may_follow: dict[Factor, tuple[Factor, ...]] = {}
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
            self.may_follow,
        )
        self._check_followers(parsed)
        return parsed

    def _check_followers(self, parsed: Notation) -> None:
        pairs = [*self.follows.items()]
        pairs += [(f, leader) for f, leaders in self.may_follow.items() for leader in leaders]
        for follower, leader in pairs:
            if leader not in parsed.factors:
                raise self._wrong(f"{follower} follows {leader}, which is not a factor", 0)
            if leader in self.follows or leader in self.may_follow:
                raise self._wrong(f"{follower} follows {leader}, which follows itself", 0)
            if follower in self.follows and follower in self.may_follow:
                raise self._wrong(f"{follower} follows both always and by choice", 0)
        for follower, leaders in self.may_follow.items():
            for term in parsed.outputs:
                factors = {f for dim in term for part in dim for f in part}
                if follower in factors and not factors.issuperset(leaders):
                    raise self._wrong(f"an output has {follower} without its leader", 0)

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
        while self._peek() == "@":
            self._take("@")
            name = self._peek()
            if not name or not (name[0].isalpha() or name[0] == "_"):
                raise self._wrong("expected a factor after @", self._at())
            leader = Factor(self._take(name))
            if self._peek() == "?":
                self._take("?")
                others = (name for name in self.may_follow.get(factor, ()) if name != leader)
                self.may_follow[factor] = (*others, leader)
            elif self.follows.setdefault(factor, leader) != leader:
                raise self._wrong(f"{factor} follows two factors", self._at())
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

    def _wrong(self, cause: str, at: int) -> RuleError:
        excerpt = self.text if len(self.text) <= 120 else self.text[:117] + "..."
        return RuleError(f"rule {excerpt!r}: {cause} (character {at})")
