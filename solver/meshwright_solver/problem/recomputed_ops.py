"""Recomputed ops: the forward ops that run again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from meshwright.schema import Recomputed, RecomputePolicy, Segment

Communication = Literal["auto", "repeat", "keep"]


@dataclass(frozen=True)
class RecomputedOps:
    """The recomputed ops of a stage. again: their names.

    segment_of: op -> number of its segment, in graph order. A segment holds the ops whose gradients
    need its recomputed ops. communication: whether redistributions of recomputed values are
    repeated, or their results kept; `auto`: as the search chooses.
    """

    policy: RecomputePolicy = "none"
    again: frozenset[str] = frozenset()
    segment_of: Mapping[str, int] = field(default_factory=dict)
    communication: Communication = "auto"

    @staticmethod
    def of(document: Recomputed | None) -> RecomputedOps:
        """The recomputed ops of a plan's stage document."""
        if document is None:
            return NOTHING
        return RecomputedOps(
            document.policy,
            frozenset(op for segment in document.segments for op in segment.again),
            {op: number for number, segment in enumerate(document.segments) for op in segment.ops},
        )

    def __bool__(self) -> bool:
        return bool(self.again)

    def document(self, ops: Iterable[str]) -> Recomputed | None:
        """The document of a plan's stage; ops: all names, in the order of the document."""
        segments: dict[int, list[str]] = {}
        for op in ops:
            number = self.segment_of.get(op)
            if number is not None:
                segments.setdefault(number, []).append(op)
        if not any(self.again.intersection(names) for names in segments.values()):
            return None
        return Recomputed(
            policy=self.policy,
            segments=tuple(
                [
                    Segment(ops=tuple(names), again=tuple([op for op in names if op in self.again]))
                    for _, names in sorted(segments.items())
                ]
            ),
        )


NOTHING = RecomputedOps()
