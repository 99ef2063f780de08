"""Own steps: the collectives inside an op, for all of its strategies at once.

    what         an axis lies on                            forward          backward
    statistics   a reused part                              all_reduce       all_reduce
    candidates   a reused part, of an op like top-k         all_gather       all_gather
    halo         a part with a halo                         send             send
    ring         a part with followers, of dense inputs     p - 1 sends      p - 1 sends
    indices      a part with followers, of sparse inputs    all_to_all       -
    rows         a part with followers, of sparse inputs    all_to_all       all_to_all
    receive      any part of a tensor from another stage    send             -
    return       any part of a tensor for another stage     -                send

over a group of p devices.

Ring: forward, the local blocks of inputs that have the followers and not their leader circulate.
Backward, the saved blocks circulate with their gradients. The gradient of a block returns to its
owner after p - 1 sends, and the owner adds its own contribution.

Lookups: indices travel to the devices with their rows and the rows travel back; backward, the
gradients of the rows return in the same way. Rows are assumed to be looked up evenly.

Candidates are the best elements of every part with their places; the backward pass compares them
again. Between stages every device receives its part of a tensor, or of a gradient, over the link
between the stages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import DTYPE_BYTES
from meshwright_costmodel.collectives import Extents, Interconnect, collective_cost
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.axis_groups import axis_groups
from meshwright_solver.strategies.op_model import OpModel

What = Literal["statistics", "candidates", "halo", "ring", "indices", "rows", "receive", "return"]
Kind = Literal["all_reduce", "all_gather", "send", "all_to_all"]

STATISTICS = 2  # per reduction: mean and variance, or maximum and sum
STATISTICS_BYTES = 4  # float32 in every framework
PLACE_BYTES = 8  # int64, as PyTorch and MindSpore count places


@dataclass(frozen=True, slots=True)
class OwnMove:
    """An own step of an op, in all strategies that have it.

    kind, times: the collective over the group of `axes`, and its number of repetitions. rows: the
    strategies that have it, (strategies,). payload_bytes, ns: by such strategy, of one repetition
    and of all. again: recomputation repeats it in the backward pass.
    """

    what: What
    kind: Kind
    axes: tuple[int, ...]
    backward: bool
    times: int
    rows: NDArray[np.bool_]
    payload_bytes: FloatArray
    ns: FloatArray
    again: bool = False


def own_moves(model: OpModel, choices: IntArray, interconnect: Interconnect) -> Iterator[OwnMove]:
    """Own steps of an op in one microbatch, for the strategies `choices`."""
    moves = _Moves(model, choices, interconnect)
    yield from moves.between_stages()
    if not model.inputs:
        return
    yield from moves.statistics()
    yield from moves.halos()
    yield from moves.followers()


def own_moves_ns(model: OpModel, choices: IntArray, interconnect: Interconnect) -> FloatArray:
    """Time of an op's own steps by strategy, ns: forward, backward and recomputation."""
    total = np.zeros(len(choices))
    for move in own_moves(model, choices, interconnect):
        total[move.rows] += 2 * move.ns if move.again else move.ns
    return total


@dataclass(frozen=True, slots=True)
class _Moves:
    model: OpModel
    choices: IntArray
    interconnect: Interconnect

    def statistics(self) -> Iterator[OwnMove]:
        model = self.model
        if not any(model.reused):
            return
        for axes, rows in axis_groups(model.lies_on(model.reused, self.choices)):
            elsewhere = model.ways_of(
                self.choices[rows], [not is_reused for is_reused in model.reused]
            )
            points = self._statistic_points / elsewhere * model.load_of(self.choices[rows])
            what, kind, payload = self._statistics_payload(
                points, math.prod(model.axis_sizes[a] for a in axes)
            )
            for backward in self._passes:
                yield self._move(what, kind, axes, backward, 1, rows, payload)

    def _statistics_payload(
        self, points: FloatArray, members: int
    ) -> tuple[What, Kind, FloatArray]:
        model = self.model
        if not model.candidates:
            return "statistics", "all_reduce", STATISTICS * STATISTICS_BYTES * points
        element_bytes = DTYPE_BYTES[model.dtype] + PLACE_BYTES
        return "candidates", "all_gather", members * model.candidates * element_bytes * points

    def between_stages(self) -> Iterator[OwnMove]:
        """Transfers of a stage's received and sent values.

        An op without inputs whose result is not free is a receive.
        """
        link = self.interconnect.between_stages
        for port in self.model.outputs:
            received = not self.model.inputs
            if port.space is None or not (received or port.sent):
                continue
            every = np.ones(len(self.choices), dtype=np.bool_)
            payload = port.bytes / self.model.ways(self.choices, port)
            if received:
                yield OwnMove("receive", "send", (), False, 1, every, payload, link.ns(payload))
            if port.sent:
                yield OwnMove("return", "send", (), True, 1, every, payload, link.ns(payload))

    def halos(self) -> Iterator[OwnMove]:
        model, first = self.model, self.model.inputs[0]
        for part, elements in enumerate(model.halo_elements):
            if not elements:
                continue
            flags = [k == part for k in range(model.parts)]
            on = model.lies_on(flags, self.choices)
            for a in range(len(model.axis_sizes)):
                rows = on[:, a]
                if not rows.any():
                    continue
                choices = self.choices[rows]
                local = first.bytes / model.ways(choices, first)
                extent = model.sizes[part] / model.ways_of(choices, flags)
                payload = local * np.minimum(1.0, elements / extent)
                for backward in self._passes:
                    yield self._move("halo", "send", (a,), backward, 1, rows, payload)

    def followers(self) -> Iterator[OwnMove]:
        model = self.model
        for looked_up in (False, True):
            codes = [
                code
                for code, parts in enumerate(model.parts_of_code)
                if len(parts) > 1 and self._is_looked_up(parts[1:]) == looked_up
            ]
            for axes, rows in axis_groups(np.isin(self.choices, codes)) if codes else ():
                choices = self.choices[rows]
                moves = self._exchange if looked_up else self._ring
                yield from moves(axes, rows, choices)

    def _ring(
        self, axes: tuple[int, ...], rows: NDArray[np.bool_], choices: IntArray
    ) -> Iterator[OwnMove]:
        model = self.model
        sends = math.prod(model.axis_sizes[a] for a in axes) - 1
        passing = model.leader_of_code[choices]
        for backward in self._passes:
            payload = np.zeros(len(choices))
            for port in model.inputs:
                if port.space is None:
                    continue
                # a port circulates if followers cut it finer than its leader alone would
                cut = model.ways(choices, port)
                copies = port.saved + port.has_gradient if backward else 1
                travels = cut != model.ways(passing, port)
                payload += np.where(travels, copies * port.bytes / cut, 0.0)
            if payload.any():
                yield self._move("ring", "send", axes, backward, sends, rows, payload)

    def _exchange(
        self, axes: tuple[int, ...], rows: NDArray[np.bool_], choices: IntArray
    ) -> Iterator[OwnMove]:
        model = self.model
        indices = np.zeros(len(choices))
        for k, port in enumerate(model.inputs):
            if k not in model.sparse_inputs:
                indices += port.bytes / model.ways(choices, port)
        row_bytes = model.outputs[0].bytes / model.ways(choices, model.outputs[0])
        yield self._move("indices", "all_to_all", axes, False, 1, rows, indices)
        for backward in self._passes:
            yield self._move("rows", "all_to_all", axes, backward, 1, rows, row_bytes)

    def _is_looked_up(self, followers: tuple[int, ...]) -> bool:
        sparse = [self.model.inputs[k] for k in self.model.sparse_inputs]
        return any(part in followers for port in sparse for part, _ in port.slot_of)

    @property
    def _passes(self) -> tuple[bool, ...]:
        return (False, True) if self.model.runs_backward else (False,)

    def _move(
        self,
        what: What,
        kind: Kind,
        axes: tuple[int, ...],
        backward: bool,
        times: int,
        rows: NDArray[np.bool_],
        payload: FloatArray,
    ) -> OwnMove:
        cost = collective_cost(kind, self._extents(axes), self.interconnect)
        again = self.model.is_remade and not backward
        ns = times * cost.ns(payload)
        return OwnMove(what, kind, axes, backward, times, rows, payload, ns, again)

    def _extents(self, axes: tuple[int, ...]) -> Extents:
        sizes, levels = self.model.axis_sizes, self.model.axis_levels
        return self.interconnect.extents_of((levels[a], sizes[a]) for a in axes)

    @property
    def _statistic_points(self) -> float:
        """Number of reductions of the op: elements of its first input over the reused parts."""
        parts = {part for part, _ in self.model.inputs[0].slot_of}
        sizes, reused = self.model.sizes, self.model.reused
        return math.prod(float(sizes[part]) for part in parts if not reused[part])
