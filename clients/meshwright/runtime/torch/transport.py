"""What goes from stage to stage: pieces of tensors, sent and received by one rank.

No rank waits for another in vain:

- A send waits for nobody: it is begun when its stage has made what is sent, and ended with the
  step. A rank waits for nothing but what its next pass needs.
- So some pass can always run, as long as the schedule alone has no circle: ranks go through their
  passes in an order in which each could run one after the other, and the first of these that has
  not been run has all that it needs sent already.
- A channel carries one direction between two stages. Both ends go through it in one order: by
  microbatch, in which every schedule keeps a stage's passes of a kind, then by tensor. Messages
  need no names, and a send that a receive in the other direction waits for is never behind it.
- Inside a stage what came in is passed on by its ranks to each other, while all of them are at that
  same receive. Stages on the same devices exchange when the first has made its part: all of them
  are at that same pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from meshwright.runtime.moves import Cause, Move
from meshwright.runtime.torch.boxes import Box, Held
from meshwright.runtime.torch.collectives import Collectives
from meshwright.runtime.torch.record import Ran, Record
from meshwright.schema.rank_strategy import RankStrategy, Site, StageTransfer

T = torch.Tensor
CAUSES: Mapping[str, Cause] = {"value": "forward", "gradient": "backward", "sum": "step"}


@dataclass(frozen=True, slots=True)
class _Route:
    """One transfer, its pieces in order. sends, receives: of the first wave. relayed, late: of the
    second. here: what stays, from and to. neutral: what a target of no pieces holds."""

    transfer: StageTransfer
    shape: tuple[int, ...] | None
    sends: tuple[Box, ...]
    receives: tuple[Box, ...]
    relayed: tuple[Box, ...]
    late: tuple[Box, ...]
    here: tuple[tuple[Box, Box], ...]
    neutral: float | None


class Transport:
    """Carries a rank's transfers. channels: by the stages' numbers. collectives: of its own stages,
    which reduce what is partial before it is sent. dtype_of: a tensor."""

    def __init__(
        self,
        strategy: RankStrategy,
        channels: Mapping[tuple[int, int], dist.ProcessGroup | None],
        collectives: Mapping[int, Collectives],
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
        self._routes: dict[str, list[_Route]] = {"value": [], "gradient": [], "sum": []}
        for transfer in strategy.transfers:
            self._routes[transfer.what].append(self._route(transfer, strategy.sites))
        self._arrived: dict[tuple[int, int, str], deque[T]] = {}
        self._pending: list[tuple[dist.Work, list[T]]] = []

    def send(self, what: str, source: int, values: Mapping[str, T]) -> None:
        """Begin to send what a stage has made of a microbatch."""
        for route in self._routes[what]:
            own = route.transfer
            if own.source != source:
                continue
            local = self._reduced(own, values[own.tensor].detach())
            if own.target in self._collectives:
                (came,) = self._exchanged([(route, local)])
                assert came is not None
                self._arrived.setdefault(_ends(own), deque()).append(came)
            else:
                self._pending += self._begun(own, self._outgoing(route.sends, local, own))

    def receive(self, what: str, target: int) -> dict[str, T]:
        """What a stage needs of others for a microbatch, by tensor; waits until it is here."""
        found = {}
        for route in self._routes[what]:
            own = route.transfer
            if own.target != target:
                continue
            if own.source in self._collectives:
                found[own.tensor] = self._arrived[_ends(own)].popleft()
            else:
                (came,) = self._exchanged([(route, None)])
                assert came is not None
                found[own.tensor] = came
        return found

    def summed(self, gradients: Mapping[int, Mapping[str, T]]) -> dict[int, dict[str, T]]:
        """Gradients of parameters that several stages hold, added up over these in their order: by
        the number of each own stage, and parameter."""
        together: dict[tuple[str, frozenset[int]], list[_Route]] = {}
        for route in self._routes["sum"]:
            own = route.transfer
            together.setdefault((own.tensor, frozenset((own.source, own.target))), []).append(route)
        terms: dict[tuple[int, str], dict[int, T]] = {}
        for (name, _), routes in together.items():
            locals_ = [gradients.get(route.transfer.source, {}).get(name) for route in routes]
            for route, came in zip(
                routes, self._exchanged(list(zip(routes, locals_, strict=True))), strict=True
            ):
                source, target = route.transfer.source, route.transfer.target
                if came is not None:
                    own_term = {target: gradients[target][name]}
                    terms.setdefault((target, name), own_term)[source] = came
        found: dict[int, dict[str, T]] = {}
        for (target, name), of_stages in terms.items():
            first, *others = (of_stages[number] for number in sorted(of_stages))
            found.setdefault(target, {})[name] = sum(others, start=first)
        return found

    def shared(self, number: int) -> set[str]:
        """The parameters of a stage of which it sends gradients to others."""
        own = (route.transfer for route in self._routes["sum"])
        return {transfer.tensor for transfer in own if transfer.source == number}

    def finish(self) -> None:
        """Wait for all sends of the step."""
        for work, _ in self._pending:
            work.wait()
        self._pending.clear()

    def _reduced(self, own: StageTransfer, local: T) -> T:
        """What is sent, from what the source has."""
        if not own.reduction:
            return local
        move = Move(own.tensor, own.made, own.reduction, CAUSES[own.what])
        return self._collectives[own.source].move(local, move)

    def _exchanged(self, given: Sequence[tuple[_Route, T | None]]) -> list[T | None]:
        """Carry transfers over one channel, both waves; what has come by each, where this rank is
        at its end. None is given where it is not at the beginning."""
        made = [None if route.shape is None else self._empty(route) for route, _ in given]
        sends, receives = [], []
        for (route, local), own in zip(given, made, strict=True):
            if local is not None:
                sends += self._outgoing(route.sends, local, route.transfer)
                for here, there in route.here:
                    assert own is not None
                    own[there.place] = here.of(local)
            if own is not None:
                receives.append((own, route.receives))
        channel = given[0][0].transfer
        self._waited(channel, sends, receives)
        late = [
            (own, route) for (route, _), own in zip(given, made, strict=True) if own is not None
        ]
        passed = [
            one for own, route in late for one in self._outgoing(route.relayed, own, route.transfer)
        ]
        self._waited(channel, passed, [(own, route.late) for own, route in late])
        return made

    def _waited(
        self,
        over: StageTransfer,
        sends: Sequence[tuple[int, T]],
        receives: Sequence[tuple[T, Sequence[Box]]],
    ) -> None:
        """Send and receive together, and put what came where it belongs."""
        came = [(own, box, own.new_empty(box.shape)) for own, boxes in receives for box in boxes]
        for work, _ in self._begun(over, sends, [(box.peer, buffer) for _, box, buffer in came]):
            work.wait()
        for own, box, buffer in came:
            own[box.place] = buffer

    def _begun(
        self,
        over: StageTransfer,
        sends: Sequence[tuple[int, T]],
        receives: Sequence[tuple[int, T]] = (),
    ) -> list[tuple[dist.Work, list[T]]]:
        """With the tensors that have to live until each is done."""
        ends = (over.source, over.target)
        channel = self._channels[ends if ends in self._channels else ends[::-1]]
        operations = [dist.P2POp(dist.isend, own, peer, channel) for peer, own in sends]
        operations += [dist.P2POp(dist.irecv, own, peer, channel) for peer, own in receives]
        if not operations:
            return []
        held = [own for _, own in (*sends, *receives)]
        return [(work, held) for work in dist.batch_isend_irecv(operations)]

    def _outgoing(self, boxes: Sequence[Box], local: T, own: StageTransfer) -> list[tuple[int, T]]:
        """What goes to whom, which the record knows from now on."""
        found = [(box.peer, box.of(local)) for box in boxes]
        for peer, part in found:
            count = part.numel()
            self._record.ran.append(
                Ran(
                    "send",
                    (),
                    (self._rank, peer),
                    count,
                    count * part.element_size(),
                    own.tensor,
                    CAUSES[own.what],
                )
            )
        return found

    def _empty(self, route: _Route) -> T:
        assert route.shape is not None
        dtype = self._dtype_of(route.transfer.tensor)
        if route.neutral is None:
            return torch.empty(route.shape, dtype=dtype, device=self._device)
        return torch.full(route.shape, route.neutral, dtype=dtype, device=self._device)

    def _route(self, own: StageTransfer, sites: Sequence[Site]) -> _Route:
        ends = [Held.of(own.sent, sites[own.source], self._rank)]
        ends.append(Held.of(own.to, sites[own.target], self._rank))
        here, there = ends

        def outgoing(held: Held | None, wave: int) -> tuple[Box, ...]:
            if held is None:
                return ()
            return tuple(held.box(one, one.target) for one in own.sends if one.wave == wave)

        def incoming(wave: int) -> tuple[Box, ...]:
            if there is None:
                return ()
            return tuple(there.box(one, one.source) for one in own.receives if one.wave == wave)

        neutral = None
        if own.fills:
            neutral = -torch.inf if own.fills[0].value == "lowest" else 0.0
        return _Route(
            transfer=own,
            shape=None if there is None else there.shape,
            sends=outgoing(here, 1),
            receives=incoming(1),
            relayed=outgoing(there, 2),
            late=incoming(2),
            here=tuple(
                (here.box(piece, self._rank), there.box(piece, self._rank))
                for piece in own.keeps
                if here is not None and there is not None
            ),
            neutral=neutral,
        )


def _ends(own: StageTransfer) -> tuple[int, int, str]:
    return own.source, own.target, own.tensor
