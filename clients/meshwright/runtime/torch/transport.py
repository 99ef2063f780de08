"""Transport between stages: sends and receives of pieces of tensors by one rank.

The transport is free of deadlocks:

- A send does not block. It begins when its stage has computed the tensor, and ends with the step. A
  rank waits only for the tensors of its next pass.
- Some pass can always run if the schedule has no cycle. There is a sequential order of all passes,
  and the first pass in it that has not run has all of its tensors sent already.
- A channel carries one direction between two stages. Both ends use it in the same order: by
  microbatch, then by tensor. Messages need no names, and a send never waits behind a receive of the
  other direction.
- Inside a stage, the ranks forward pieces to each other while all of them are at the same receive.
  Stages on the same devices exchange pieces after the first has computed its tensor, when all ranks
  are at the same pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from meshwright.runtime.redistribution_steps import Cause, LayoutChange
from meshwright.runtime.torch.collective_log import LoggedCollective, Record
from meshwright.runtime.torch.collectives import TorchCollectives
from meshwright.runtime.torch.tensor_boxes import Held, LocalBox
from meshwright.schema.rank_strategy import RankStrategy, Site, StageTransfer

T = torch.Tensor
CAUSES: Mapping[str, Cause] = {"value": "forward", "gradient": "backward", "sum": "step"}


@dataclass(frozen=True, slots=True)
class _LocalRoute:
    """The pieces of one transfer on this rank, in order.

    sends, receives  the first wave
    relayed, late    the sends and receives of the second wave
    here             the pieces that stay, as pairs (source, target)
    neutral          the neutral element of a target without pieces
    """

    transfer: StageTransfer
    shape: tuple[int, ...] | None
    sends: tuple[LocalBox, ...]
    receives: tuple[LocalBox, ...]
    relayed: tuple[LocalBox, ...]
    late: tuple[LocalBox, ...]
    here: tuple[tuple[LocalBox, LocalBox], ...]
    neutral: float | None


class Transport:
    """The transfers of a rank.

    `channels` are the channels by the numbers of the source and target stages. `collectives` reduce
    partial tensors of the rank's stages before sends. `dtype_of` returns the dtype of a tensor.
    """

    def __init__(
        self,
        strategy: RankStrategy,
        channels: Mapping[tuple[int, int], dist.ProcessGroup | None],
        collectives: Mapping[int, TorchCollectives],
        *,
        record: Record,
        dtype_of: Callable[[str], torch.dtype],
        device: torch.device,
    ) -> None:
        self._rank = strategy.rank
        self._channels = channels
        self._collectives = collectives
        self._record = record
        self._dtype_of = dtype_of
        self._device = device
        self._routes: dict[str, list[_LocalRoute]] = {"value": [], "gradient": [], "sum": []}
        for transfer in strategy.transfers:
            self._routes[transfer.what].append(self._route(transfer, strategy.sites))
        self._arrived: dict[tuple[int, int, str], deque[T]] = {}
        self._pending: list[tuple[dist.Work, list[T]]] = []

    def send(self, what: str, source: int, values: Mapping[str, T]) -> None:
        """Begin to send the tensors of a stage for a microbatch."""
        for route in self._routes[what]:
            transfer = route.transfer
            if transfer.source != source:
                continue
            local = self._reduce(transfer, values[transfer.tensor].detach())
            if transfer.target in self._collectives:
                (arrival,) = self._exchange([(route, local)])
                assert arrival is not None
                self._arrived.setdefault(_ends(transfer), deque()).append(arrival)
            else:
                sends = self._outgoing(route.sends, local, transfer)
                self._pending += self._begin(transfer, sends)

    def receive(self, what: str, target: int) -> dict[str, T]:
        """Wait for the tensors of other stages for a microbatch. Returns them by name."""
        tensors = {}
        for route in self._routes[what]:
            transfer = route.transfer
            if transfer.target != target:
                continue
            if transfer.source in self._collectives:
                tensors[transfer.tensor] = self._arrived[_ends(transfer)].popleft()
            else:
                (arrival,) = self._exchange([(route, None)])
                assert arrival is not None
                tensors[transfer.tensor] = arrival
        return tensors

    def summed(self, gradients: Mapping[int, Mapping[str, T]]) -> dict[int, dict[str, T]]:
        """The gradients of shared parameters, added over their stages in order.

        Returns them by the number of each stage of this rank, and parameter.
        """
        together: dict[tuple[str, frozenset[int]], list[_LocalRoute]] = {}
        for route in self._routes["sum"]:
            transfer = route.transfer
            key = (transfer.tensor, frozenset((transfer.source, transfer.target)))
            together.setdefault(key, []).append(route)
        terms: dict[tuple[int, str], dict[int, T]] = {}
        for (name, _), routes in together.items():
            locals_ = [gradients.get(route.transfer.source, {}).get(name) for route in routes]
            for route, arrival in zip(
                routes, self._exchange(list(zip(routes, locals_, strict=True))), strict=True
            ):
                source, target = route.transfer.source, route.transfer.target
                if arrival is not None:
                    local_term = {target: gradients[target][name]}
                    terms.setdefault((target, name), local_term)[source] = arrival
        sums: dict[int, dict[str, T]] = {}
        for (target, name), of_stages in terms.items():
            first, *others = (of_stages[number] for number in sorted(of_stages))
            sums.setdefault(target, {})[name] = sum(others, start=first)
        return sums

    def shared(self, number: int) -> set[str]:
        """The parameters whose gradients a stage sends to other stages."""
        transfers = (route.transfer for route in self._routes["sum"])
        return {transfer.tensor for transfer in transfers if transfer.source == number}

    def finish(self) -> None:
        """Wait for all sends of the step."""
        for work, _ in self._pending:
            work.wait()
        self._pending.clear()

    def _reduce(self, transfer: StageTransfer, local: T) -> T:
        """The tensor to send, from the tensor of the source."""
        if not transfer.reduction:
            return local
        move = LayoutChange(
            transfer.tensor, transfer.made, transfer.reduction, CAUSES[transfer.what]
        )
        return self._collectives[transfer.source].move(local, move)

    def _exchange(self, transfers: Sequence[tuple[_LocalRoute, T | None]]) -> list[T | None]:
        """Run both waves of transfers over one channel.

        Each route has the tensor to send, or None if this rank is not in the source. Returns the
        received tensor of each route, or None if this rank is not in the target.
        """
        results = [None if route.shape is None else self._empty(route) for route, _ in transfers]
        sends, receives = [], []
        for (route, local), result in zip(transfers, results, strict=True):
            if local is not None:
                sends += self._outgoing(route.sends, local, route.transfer)
                for here, there in route.here:
                    assert result is not None
                    result[there.place] = here.of(local)
            if result is not None:
                receives.append((result, route.receives))
        channel = transfers[0][0].transfer
        self._run_wave(channel, sends, receives)
        late = [
            (result, route)
            for (route, _), result in zip(transfers, results, strict=True)
            if result is not None
        ]
        relays = [
            send
            for result, route in late
            for send in self._outgoing(route.relayed, result, route.transfer)
        ]
        self._run_wave(channel, relays, [(result, route.late) for result, route in late])
        return results

    def _run_wave(
        self,
        over: StageTransfer,
        sends: Sequence[tuple[int, T]],
        receives: Sequence[tuple[T, Sequence[LocalBox]]],
    ) -> None:
        """Run sends and receives together, and copy the received pieces to their places."""
        buffers = [
            (target, box, target.new_empty(box.shape))
            for target, boxes in receives
            for box in boxes
        ]
        for work, _ in self._begin(over, sends, [(box.peer, buffer) for _, box, buffer in buffers]):
            work.wait()
        for target, box, buffer in buffers:
            target[box.place] = buffer

    def _begin(
        self,
        over: StageTransfer,
        sends: Sequence[tuple[int, T]],
        receives: Sequence[tuple[int, T]] = (),
    ) -> list[tuple[dist.Work, list[T]]]:
        """Begin sends and receives. Returns each with the tensors that must live until it ends."""
        ends = (over.source, over.target)
        channel = self._channels[ends if ends in self._channels else ends[::-1]]
        operations = [dist.P2POp(dist.isend, tensor, peer, channel) for peer, tensor in sends]
        operations += [dist.P2POp(dist.irecv, tensor, peer, channel) for peer, tensor in receives]
        if not operations:
            return []
        tensors = [tensor for _, tensor in (*sends, *receives)]
        return [(work, tensors) for work in dist.batch_isend_irecv(operations)]

    def _outgoing(
        self, boxes: Sequence[LocalBox], local: T, transfer: StageTransfer
    ) -> list[tuple[int, T]]:
        """The pieces of a transfer by their receiving rank. Adds them to the log."""
        sends = [(box.peer, box.of(local)) for box in boxes]
        for peer, part in sends:
            count = part.numel()
            self._record.ran.append(
                LoggedCollective(
                    "send",
                    (),
                    (self._rank, peer),
                    count,
                    count * part.element_size(),
                    transfer.tensor,
                    CAUSES[transfer.what],
                )
            )
        return sends

    def _empty(self, route: _LocalRoute) -> T:
        assert route.shape is not None
        dtype = self._dtype_of(route.transfer.tensor)
        if route.neutral is None:
            return torch.empty(route.shape, dtype=dtype, device=self._device)
        return torch.full(route.shape, route.neutral, dtype=dtype, device=self._device)

    def _route(self, transfer: StageTransfer, sites: Sequence[Site]) -> _LocalRoute:
        here = Held.of(transfer.sent, sites[transfer.source], self._rank)
        there = Held.of(transfer.to, sites[transfer.target], self._rank)

        def outgoing(held: Held | None, wave: int) -> tuple[LocalBox, ...]:
            if held is None:
                return ()
            pieces = (piece for piece in transfer.sends if piece.wave == wave)
            return tuple(held.box(piece, piece.target) for piece in pieces)

        def incoming(wave: int) -> tuple[LocalBox, ...]:
            if there is None:
                return ()
            pieces = (piece for piece in transfer.receives if piece.wave == wave)
            return tuple(there.box(piece, piece.source) for piece in pieces)

        neutral = None
        if transfer.fills:
            neutral = -torch.inf if transfer.fills[0].value == "lowest" else 0.0
        return _LocalRoute(
            transfer=transfer,
            shape=None if there is None else there.shape,
            sends=outgoing(here, 1),
            receives=incoming(1),
            relayed=outgoing(there, 2),
            late=incoming(2),
            here=tuple(
                (here.box(piece, self._rank), there.box(piece, self._rank))
                for piece in transfer.keeps
                if here is not None and there is not None
            ),
            neutral=neutral,
        )


def _ends(transfer: StageTransfer) -> tuple[int, int, str]:
    return transfer.source, transfer.target, transfer.tensor
