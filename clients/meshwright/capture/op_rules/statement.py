"""Rules that a user states for ops, as in `b s [h], [h] -> b s [h]`.

    rule   = terms "->" terms       one term for each tensor of the op, by commas
    term   = dim dim ...            empty for a scalar
    dim    = name | [name] | 1 | ( name name ... )      a product, major first

A name that all outputs and at least one input have is a dim along which the op may be sharded: its
parts are independent, and a tensor without it is whole on every device. A dim in brackets, and a
name that not all outputs have, stays whole.
"""

from __future__ import annotations

import re

from meshwright.schema import Factor, GraphError, RuleError, ShardingRule
from meshwright.schema.notation import Notation, Term, parse_notation

_BRACKETS = re.compile(r"\[\s*([A-Za-z_]\w*)\s*\]")


def stated_rule(text: str) -> ShardingRule:
    """The sharding rule of a statement; raises GraphError if it is not one."""
    try:
        parsed = parse_notation(_BRACKETS.sub(r"\1!", text))
    except RuleError as wrong:
        raise GraphError(f"cannot read the rule {text!r}: {wrong.detail}") from None
    has_marks = parsed.reused or parsed.halo or parsed.follows or parsed.may_follow
    if has_marks or any(len(dim) > 1 for term in parsed.terms for dim in term):
        raise GraphError(
            f"cannot read the rule {text!r}. Use names, [names], 1 and products in parentheses"
        )
    return ShardingRule(notation=_with_whole_dims(parsed), flops=0)


def independent_factors(rule: ShardingRule) -> tuple[Factor, ...]:
    """The factors along which an op of the rule may be sharded."""
    parsed = rule.parsed
    return tuple(factor for factor in parsed.factors if factor not in parsed.unsharded)


def _with_whole_dims(parsed: Notation) -> str:
    """The notation with a mark on every factor that stays whole."""
    inputs = {factor for term in parsed.inputs for factor in _factors(term)}
    shared = inputs.intersection(*(_factors(term) for term in parsed.outputs))

    def shown(factor: Factor) -> str:
        return factor if factor in shared and factor not in parsed.unsharded else f"{factor}!"

    def side(terms: tuple[Term, ...]) -> str:
        return ", ".join(
            " ".join(_dim([shown(factor) for factor in dim[0]]) for dim in term) for term in terms
        )

    return f"{side(parsed.inputs)} -> {side(parsed.outputs)}"


def _factors(term: Term) -> set[Factor]:
    return {factor for dim in term for product in dim for factor in product}


def _dim(factors: list[str]) -> str:
    if not factors:
        return "1"
    return factors[0] if len(factors) == 1 else f"({' '.join(factors)})"
