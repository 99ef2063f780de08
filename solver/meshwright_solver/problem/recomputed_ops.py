"""What is done again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meshwright.schema import Recomputed, RecomputePolicy, Segment


@dataclass(frozen=True)
class RecomputedOps:
    """again: names of the ops that are done again. segment_of: by name of op, of all ops whose
    gradients what is made again serves. Segments are numbered in order."""

    policy: RecomputePolicy = "none"
    again: frozenset[str] = frozenset()
    segment_of: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(said: Recomputed | None) -> RecomputedOps:
        """As a plan's stage says it."""
        if said is None:
            return NOTHING
        return RecomputedOps(
            said.policy,
            frozenset(op for segment in said.segments for op in segment.again),
            {op: number for number, segment in enumerate(said.segments) for op in segment.ops},
        )

    def __bool__(self) -> bool:
        return bool(self.again)

    def document(self, ops: Iterable[str]) -> Recomputed | None:
        """As a plan says it; ops: in the order in which they are to be named."""
        segments: dict[int, list[str]] = {}
        for op in ops:
            number = self.segment_of.get(op)
            if number is not None:
                segments.setdefault(number, []).append(op)
        if not any(self.again.intersection(own) for own in segments.values()):
            return None
        return Recomputed(
            policy=self.policy,
            segments=tuple(
                [
                    Segment(ops=tuple(own), again=tuple([op for op in own if op in self.again]))
                    for _, own in sorted(segments.items())
                ]
            ),
        )


NOTHING = RecomputedOps()
