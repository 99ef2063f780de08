"""The factors of a sharding rule in words: what an axis on each of them cuts."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.launch_options.roles import factor_roles
from meshwright.schema import Graph, Op, parse_notation
from meshwright.schema.uniform_degrees import Role

_WORDS: Mapping[Role, str] = {"dp": "the batch", "cp": "the sequence", "ep": "the experts"}
SUMMED = "the summed dim"  # its devices add their results
_PRODUCTS = frozenset({"linear", "matmul", "expert_matmul", "grouped_matmul"})


def factor_words(op: Op, rule: str | None, graph: Graph) -> dict[str, str]:
    """The dims that an axis on each factor of the rule cuts, such as the batch, heads or columns.

    Factors of the last dim of a product's result are its columns, those that no result has are
    summed, and those of other dims are named by the dim.
    """
    if rule is None:
        return {}
    roles = factor_roles(op, rule, graph)
    terms = parse_notation(rule).terms_of(len(op.inputs) + len(op.outputs))[len(op.inputs) :]
    dim_of: dict[str, tuple[int, int]] = {
        factor: (number, len(term))
        for term in reversed(terms[:1])
        for number, products in enumerate(term)
        for product in products
        for factor in product
    }
    return {
        factor: _WORDS.get(role) or _words_of_dim(op, dim_of.get(factor))
        for factor, role in roles.items()
    }


def _words_of_dim(op: Op, dim: tuple[int, int] | None) -> str:
    """dim: the position of the dim in the result, and the number of dims; None for no dim."""
    if dim is None:
        return "rows of the table" if op.kind == "embedding" else SUMMED
    number, count = dim
    if op.kind == "attention":
        return "heads"
    if op.kind in _PRODUCTS and number == count - 1:
        return "columns"
    return f"dim {number} of the result"
