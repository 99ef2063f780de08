"""Factors in which an op does not care for the order of their index.

What a rule leaves free or sums over may run in any order, as long as all tensors that have it run
in the same; so may what is reduced by statistics that are the same in any order (norms, softmax,
largest). Not so where the op goes by places or by numbers: `tests/solver/rules/test_index_order.py`
holds every kind's kernel to this.
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

# what goes by places in all of its factors: masks, numbers by place, room for tokens first come
# first served, points of images, rows in runs
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
# what is summed over are the rows that numbers look up
LOOKS_UP = frozenset({"embedding", "index_select", "index", "gather_nd"})
# factors that numbers stand for, and the keys of attention, which its rule keeps whole
NUMBERED: Mapping[str, frozenset[str]] = {
    "one_hot": frozenset({"c"}),
    "unsorted_segment_sum": frozenset({"n"}),
    "unsorted_segment_max": frozenset({"n"}),
    "unsorted_segment_min": frozenset({"n"}),
    "unsorted_segment_prod": frozenset({"n"}),
}
# statistics that are the same in any order
STATISTICS = frozenset(
    {*NORMALISATIONS, "amax", "amin", "prod", "any", "all", "var", "softmax_cross_entropy"}
)
KEYS = Factor("t")
# experts have as much room for an equal part of the tokens wherever it stands: what follows the
# tokens is in their order, chunk by chunk
ROOM = frozenset({"moe_dispatch", "moe_combine"})


def in_any_order(kind: str, rule: Notation) -> frozenset[Factor]:
    """The factors of a known kind's rule whose order the op does not care for.

    Of causal attention the order of rows and keys is meant together with their true positions, of
    experts the order of equal chunks of the tokens.
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
    found = frozenset(rule.factors) - closed - NUMBERED.get(kind, frozenset())
    return found | {KEYS} if kind == "attention" else found
