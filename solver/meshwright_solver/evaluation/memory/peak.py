"""Memory peaks: holdings accumulated over the execution order of a microbatch.

While a gathered parameter is in use the next one is gathered, as in FSDP. Further prefetching uses
free memory only. While a gradient is reduced the next one is computed. Both cross the borders of
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.memory.event_order import EventOrder, OpEvent
from meshwright_solver.evaluation.memory.holding_tables import HoldingKind, Holdings, place_rows

_EVENT_TEXTS = {
    OpEvent.FORWARD: "forward of",
    OpEvent.AGAIN: "recomputing",
    OpEvent.INPUTS: "backward of",
    OpEvent.WEIGHTS: "backward of",
    OpEvent.SENT: "sending to the next stage",
    OpEvent.GIVEN: "gradients from the next stage",
}
_WITHOUT_OP = (OpEvent.SENT, OpEvent.GIVEN)
_NO_BYTES = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PassPeak:
    """Memory peak of a pass: bytes that one microbatch holds.

    doing, op: the event at the peak; op is None for events without op. before: bytes held at the
    begin of the pass.
    """

    doing: str
    op: str | None
    saved: int
    recomputed: int
    working: int
    gathered: int
    before: int

    @property
    def at(self) -> str:
        return self.doing if self.op is None else f"{self.doing} {self.op}"

    @property
    def total(self) -> int:
        return self.saved + self.recomputed + self.working + self.gathered


@dataclass(frozen=True, slots=True)
class Moments:
    """Memory peaks of the passes over a microbatch: forward, backward, and weights if split.

    saved_bytes: between forward and backward. buffers_bytes: held all the time. passing_bytes: by
    position, the most transient memory while the op runs. gathered_bytes: all gathered parameters
    and reduced gradients.
    """

    passes: tuple[PassPeak, ...]
    saved_bytes: int
    buffers_bytes: int
    gathered_bytes: int
    passing_bytes: IntArray = field(default_factory=lambda: _NO_BYTES, compare=False, repr=False)

    @property
    def fullest(self) -> PassPeak:
        """Highest peak of all passes for a microbatch in isolation; the last of equal ones."""
        return max(reversed(self.passes), key=lambda peak: peak.total)

    def renamed(self, names: Mapping[str, str]) -> Moments:
        """Memory peaks of a stage whose ops have other names."""
        passes = [replace(peak, op=names.get(peak.op or "", peak.op)) for peak in self.passes]
        return replace(self, passes=tuple(passes))


def rows_of(
    order: EventOrder, holdings: Iterable[tuple[Holdings, IntArray]]
) -> tuple[IntArray, IntArray, int, int]:
    """Rows of holdings, prefetch rows, bytes of buffers, and bytes of gathers and reductions.

    Rows are (first place, last place, bytes, what). holdings: each with the positions of its ops in
    the execution order, for every copy.
    """
    holding_rows, gathers, unreduced, buffers = [], [], [], 0
    for held, names in holdings:
        holding_rows.append(place_rows(held.rows, order, names))
        gathers.append(place_rows(held.gathers, order, names))
        unreduced.append(place_rows(held.unreduced, order, names))
        buffers += held.buffers_bytes * len(names)
    gathered, gradients = _by_start(gathers), _by_start(unreduced)
    rows = [_labeled(array, None) for array in holding_rows]
    rows += [_labeled(gathered, HoldingKind.GATHERED), _labeled(gradients, HoldingKind.GATHERED)]
    beside = np.concatenate([_ahead(gathered), _behind(gradients)])
    gathered_bytes = int(gathered[:, 2].sum() + gradients[:, 2].sum())
    return np.concatenate(rows), beside, buffers, gathered_bytes


def moments_of(
    order: EventOrder,
    name: Callable[[int], str],
    rows: IntArray,
    beside: IntArray,
    buffers: int,
    gathered_bytes: int,
) -> Moments:
    """Memory peak of every pass; of equal ones, at the latest op.

    name: the name of the op at a position. The other arguments are the result of `rows_of`.
    """
    held = _held_bytes(order, np.concatenate([rows, beside]))
    total = held.sum(axis=0)
    peaks = []
    for begin, end in zip(order.passes, order.passes[1:], strict=False):
        pass_bytes = total[begin:end]
        positions = order.positions[begin:end]
        full = np.flatnonzero(pass_bytes == pass_bytes.max())
        at = begin + int(full[np.argmax(positions[full])])
        crossing = (rows[:, 0] < begin) & (rows[:, 1] >= begin)
        saved, recomputed, working, gathered = (int(part) for part in held[:, at])
        event = OpEvent(int(order.kinds[at]))
        peaks.append(
            PassPeak(
                _EVENT_TEXTS[event],
                None if event in _WITHOUT_OP else name(int(order.positions[at])),
                saved,
                recomputed,
                working,
                gathered,
                int(rows[crossing, 2].sum()),
            )
        )
    saved_bytes = int(rows[rows[:, 3] == HoldingKind.SAVED, 2].sum())
    passing_bytes = _passing_bytes(order, held)
    return Moments(tuple(peaks), saved_bytes, buffers, gathered_bytes, passing_bytes)


def _passing_bytes(order: EventOrder, held: IntArray) -> IntArray:
    of_ops = ~np.isin(order.kinds, _WITHOUT_OP)
    most_bytes = np.zeros(order.at.shape[1], dtype=np.int64)
    np.maximum.at(
        most_bytes, order.positions[of_ops], held[HoldingKind.RECOMPUTED :, of_ops].sum(axis=0)
    )
    return most_bytes


def _held_bytes(order: EventOrder, rows: IntArray) -> IntArray:
    """Bytes by kind and place: (what, places)."""
    change = np.zeros((len(HoldingKind), len(order.kinds) + 1), dtype=np.int64)
    np.add.at(change, (rows[:, 3], rows[:, 0]), rows[:, 2])
    np.add.at(change, (rows[:, 3], rows[:, 1] + 1), -rows[:, 2])
    held: IntArray = np.cumsum(change, axis=1)[:, :-1]
    return held


def _labeled(rows: IntArray, what: HoldingKind | None) -> IntArray:
    kind = rows[:, 3:4] if what is None else np.full((len(rows), 1), int(what))
    return np.concatenate([rows[:, :3], kind], axis=1)


def _by_start(rows: Sequence[IntArray]) -> IntArray:
    table = np.concatenate([array[:, :3] for array in rows])
    return table[np.argsort(table[:, 0], kind="stable")]


def _ahead(gathers: IntArray) -> IntArray:
    """Prefetch of gathers: the next gather starts with the op before it that gathers."""
    starts = np.unique(gathers[:, 0])
    number = np.searchsorted(starts, gathers[:, 0])
    later = gathers[number > 0]
    before = starts[number[number > 0] - 1]
    return np.stack(
        [before, later[:, 0] - 1, later[:, 2], np.full(len(later), HoldingKind.GATHERED)], axis=1
    )


def _behind(unreduced: IntArray) -> IntArray:
    """Delayed release of gradients, until the next ones are produced."""
    starts = np.unique(unreduced[:, 0])
    number = np.searchsorted(starts, unreduced[:, 1], side="right")
    is_last = number >= len(starts)
    until = np.where(is_last, unreduced[:, 1], starts[np.minimum(number, len(starts) - 1)])
    rows = np.stack(
        [
            unreduced[:, 1] + 1,
            until,
            unreduced[:, 2],
            np.full(len(unreduced), HoldingKind.GATHERED),
        ],
        axis=1,
    )
    return rows[rows[:, 0] <= rows[:, 1]]
