"""Knowledge of an op: its sharding rule and the figures of its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meshwright.schema import OpClass, ShardingRule

Shape = tuple[int, ...]

# the kind of an op whose output another pipeline stage sends; it has a rule of its own, and its
# attribute `gradient` is true where a gradient is sent back
RECEIVE = "receive"


@dataclass(frozen=True, slots=True)
class Known:
    """A rule with its op class.

    halo_elements: halo factor -> rows that neighbors send, on both sides together.
    sparse_inputs: inputs of which only a few rows are read (embedding tables).
    skewed: factors along which work grows from nothing to all (the rows of a causal mask), so the
    last of p equal parts has (2 - 1/p) times its share.
    candidates: the number of elements at each point that every part sends for comparison (top-k);
    no statistics of reused factors are exchanged then.
    in_place: the output is the first input, with the elements of the second input written into it.
    steps: the factor of which the op computes one position after the other.
    equal: pairs of unsharded factors that have one length.
    chunks: followers whose dim is cut into chunks of the user's own lengths. Axes cut that dim, and
    the factor that it follows, as many ways as there are chunks, or not at all.
    """

    rule: ShardingRule
    op_class: OpClass
    halo_elements: Mapping[str, int] = field(default_factory=dict)
    sparse_inputs: tuple[int, ...] = ()
    skewed: tuple[str, ...] = ()
    chunks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    candidates: int = 0
    in_place: bool = False
    steps: str | None = None
    equal: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """The shapes and attributes from which a rule is built."""

    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    attrs: Mapping[str, Any]


Builder = Callable[[RuleInputs], Known]


def names(prefix: str, count: int) -> list[str]:
    """Factor names for `count` dims: prefix0 prefix1 ..."""
    return [f"{prefix}{position}" for position in range(count)]


def known(
    notation: str,
    op_class: OpClass,
    *,
    linear: tuple[tuple[int, ...], ...] = (),
    saves_inputs: tuple[int, ...] | None = None,
    saves_outputs: tuple[int, ...] = (),
    flops: str | int | None = None,
    halo_elements: Mapping[str, int] | None = None,
    sparse_inputs: tuple[int, ...] = (),
    skewed: tuple[str, ...] = (),
    chunks: Mapping[str, tuple[int, ...]] | None = None,
    candidates: int = 0,
    in_place: bool = False,
    steps: str | None = None,
    equal: tuple[tuple[str, str], ...] = (),
    sizes: Mapping[str, int] | None = None,
) -> Known:
    """A Known from its parts."""
    rule = ShardingRule(
        notation=notation,
        linear=linear,
        saves_inputs=saves_inputs,
        saves_outputs=saves_outputs,
        flops=flops,
        sizes=dict(sizes or {}),
    )
    return Known(
        rule,
        op_class,
        halo_elements or {},
        sparse_inputs,
        skewed,
        chunks or {},
        candidates,
        in_place,
        steps,
        equal,
    )
