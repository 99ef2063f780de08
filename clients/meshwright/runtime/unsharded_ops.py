"""Unsharded ops: ops that cannot run on shards and run whole between gathers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from meshwright.schema import OpPlan, parse_notation
from meshwright.schema.notation import Notation

# axes may be on summed factors: every rank computes its part of the sum
SUMS = frozenset(
    {
        "linear", "matmul", "conv", "expert_matmul", "sum", "mean", "embedding", "gather",
        "cross_entropy",
    }
)  # fmt: skip
NORMS = frozenset({"batch_norm", "layer_norm", "rms_norm", "softmax", "log_softmax"})
# axes may be on the factors that they reduce and use again
STATISTICS = frozenset({*NORMS, "cross_entropy"})
# their result depends on the position along a dim, whichever factor the rule shards
PLACED = frozenset({"tril", "triu", "group_norm", "one_hot"})


def why_whole(planned: OpPlan, attrs: Mapping[str, Any], kinds: Collection[str]) -> str:
    """The reason for which an op runs whole under its strategy; empty if it runs on shards.

    `kinds` are the kinds of ops with a kernel.
    """
    if planned.rule is None or not (planned.strategy or planned.partial):
        return ""
    rule: Notation = parse_notation(planned.rule)
    used = {f for f, axes in planned.strategy.items() if axes}
    kind = planned.kind
    if kind not in kinds:
        return "its kind has no kernel"
    if planned.followers:
        return "factors that follow others by choice move between ranks"
    if used & rule.halo:
        return "neighboring ranks need rows of each other"
    if used & rule.reused and kind not in STATISTICS:
        return "it computes statistics over several ranks"
    if used & rule.summed and kind not in SUMS:
        return "it sums over several ranks"
    if used and kind in PLACED:
        return "its result depends on the position of the shard"
    if attrs.get("groups", 1) != 1 and kind == "conv" and _is_on_channels(rule, used):
        return "its groups are on several ranks"
    return ""


def _is_on_channels(rule: Notation, used: set[Any]) -> bool:
    return any(f in used for product in rule.inputs[0][1] for f in product)
