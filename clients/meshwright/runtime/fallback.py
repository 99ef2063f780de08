"""Which ops a rank cannot run on its parts alone: they are run whole, between gathers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from meshwright.schema import OpPlan, parse_notation
from meshwright.schema.notation import Notation

# summed factors may lie on axes: what every rank makes is its part of the sum
SUMS = frozenset(
    {
        "linear", "matmul", "conv", "expert_matmul", "sum", "mean", "embedding", "gather",
        "cross_entropy",
    }
)  # fmt: skip
NORMS = frozenset({"batch_norm", "layer_norm", "rms_norm", "softmax", "log_softmax"})
# what they reduce and use again may lie on axes
STATISTICS = frozenset({*NORMS, "cross_entropy"})
# their place along a dim decides what they make, whichever factor the rule calls sharded
PLACED = frozenset({"tril", "triu", "group_norm", "one_hot"})


def why_whole(planned: OpPlan, attrs: Mapping[str, Any], kinds: Collection[str]) -> str:
    """Why an op is not run on parts under its strategy; nothing where it is. kinds: that have a
    kernel."""
    if planned.rule is None or not (planned.strategy or planned.partial):
        return ""
    rule: Notation = parse_notation(planned.rule)
    used = {f for f, axes in planned.strategy.items() if axes}
    kind = planned.kind
    if kind not in kinds:
        return "its kind has no kernel of its own"
    if planned.followers:
        return "what follows other axes by choice travels between ranks"
    if used & rule.halo:
        return "neighbours need rows of each other"
    if used & rule.reused and kind not in STATISTICS:
        return "its statistics are over several ranks"
    if used & rule.summed and kind not in SUMS:
        return "it sums over several ranks"
    if used and kind in PLACED:
        return "what it makes depends on where a part lies"
    if attrs.get("groups", 1) != 1 and kind == "conv" and _is_on_channels(rule, used):
        return "its groups lie on several ranks"
    return ""


def drops(kind: str, attrs: Mapping[str, Any]) -> bool:
    """Whether an op drops elements."""
    return bool(attrs.get({"dropout": "p", "attention": "dropout"}.get(kind, "")))


def _is_on_channels(rule: Notation, used: set[Any]) -> bool:
    return any(f in used for product in rule.inputs[0][1] for f in product)
