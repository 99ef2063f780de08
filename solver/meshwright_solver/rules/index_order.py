"""Factors whose index order does not matter to an op.

A factor that a rule leaves free or sums over may run in any order, if all tensors with it run in
the same order. The same holds for factors reduced by statistics that no order changes (norms,
softmax, largest). It does not hold where the op depends on places or numbers.
`tests/solver/rules/test_index_order.py` checks this with every kind's kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Factor, Notation
from meshwright_solver.rules.cache import CACHE
from meshwright_solver.rules.creation import CREATION
from meshwright_solver.rules.experts import ROUTING
from meshwright_solver.rules.normalisation import NORMALISATIONS
from meshwright_solver.rules.opaque import STRUCTURE
from meshwright_solver.rules.vision import VISION

# kinds that depend on places in all factors: masks, numbers by place, expert slots in the order of
# the tokens, points of images, rows in runs
PLACED = frozenset(
    {
        *(CREATION.keys() - {"full"}),
        *(CACHE.keys() - {"rotary_pair"}),
        *(STRUCTURE.keys() - {"batch_parallel"}),
        *ROUTING,
        *VISION,
        *("tril", "triu", "trace", "fault_injection", "gather"),
        *("scatter", "scatter_add", "scatter_rows", "scatter_nd", "index_add", "index_copy"),
    }
)
# kinds whose summed factors are the rows that numbers look up
LOOKS_UP = frozenset({"embedding", "index_select", "index", "gather_nd"})
# factors that numbers index
NUMBERED: Mapping[str, frozenset[str]] = {
    "one_hot": frozenset({"c"}),
    "unsorted_segment_sum": frozenset({"n"}),
    "unsorted_segment_max": frozenset({"n"}),
    "unsorted_segment_min": frozenset({"n"}),
    "unsorted_segment_prod": frozenset({"n"}),
}
# kinds whose statistics are the same in any order
STATISTICS = frozenset(
    {*NORMALISATIONS, "amax", "amin", "prod", "any", "all", "var", "softmax_cross_entropy"}
)
ROWS = Factor("s")  # the rows of attention
KEYS = Factor("t")  # the keys of attention, which its rule keeps whole
# experts have equal room for every equal part of the tokens: the factor that follows the tokens is
# in their order, chunk by chunk
ROOM = frozenset({"moe_dispatch", "moe_combine"})


def in_any_order(kind: str, rule: Notation, attrs: Mapping[str, object]) -> frozenset[Factor]:
    """The factors of a known kind's rule whose order does not matter to the op.

    For causal attention the order of rows and keys includes their true positions; a window that
    looks both ways needs them in place. For experts it is the order of equal chunks of the tokens.
    """
    if kind in PLACED:
        return frozenset()
    closed = rule.unsharded | rule.halo | set(rule.follows)
    if kind not in ROOM:
        closed |= set(rule.follows.values())
    if kind not in STATISTICS:
        closed |= rule.reused
    if kind in LOOKS_UP:
        closed |= rule.summed
    factors = frozenset(rule.factors) - closed - NUMBERED.get(kind, frozenset())
    if kind != "attention":
        return factors
    if "window" in attrs and not attrs.get("causal"):
        return factors - {ROWS}
    return factors | {KEYS}
