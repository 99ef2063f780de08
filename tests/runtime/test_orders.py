"""No rank of a pipeline waits in vain: ranks as threads, in planned orders and any legal ones."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.runtime.torch.pipeline import run_step
from meshwright.schedules.kinds import schedule

# chosen: a pass here takes microseconds
PATIENCE_S = 120.0
Pass = tuple[int, str, int]  # stage, what, microbatch
Channels = Mapping[tuple[str, int], "queue.Queue[int]"]


@dataclass
class Wire:
    """What `Transport` promises: a send waits for nobody, messages have no names, and come in the
    order in which they were sent. Channels are named by what they carry and where it ends."""

    channels: Channels
    last: int

    def send(self, what: str, source: int, values: Mapping[str, int]) -> None:
        target = source + 1 if what == "value" else source - 1
        if 0 <= target <= self.last:
            self.channels[what, target].put(values["microbatch"])

    def receive(self, what: str, target: int) -> dict[str, int]:
        is_end = target == (0 if what == "value" else self.last)
        if is_end:
            return {}
        return {"microbatch": self.channels[what, target].get(timeout=PATIENCE_S)}

    def shared(self, _: int) -> set[str]:
        return set()

    def summed(self, _: object) -> dict[int, dict[str, torch.Tensor]]:
        return {}

    def finish(self) -> None:
        return None


@dataclass
class Stage:
    """Writes down its passes, and that each got what belongs to its microbatch."""

    ran: list[tuple[str, int]] = field(default_factory=list)
    parameters: Any = field(
        default_factory=lambda: SimpleNamespace(reduced=lambda _: {}, give=lambda _: None)
    )

    def begin(self) -> None:
        return None

    def forward(
        self, number: int, _: object, received: Mapping[str, int], __: str
    ) -> dict[str, int]:
        assert received.get("microbatch", number) == number
        self.ran.append(("F", number))
        return {"microbatch": number}

    def backward(self, number: int, received: Mapping[str, int]) -> dict[str, int]:
        assert received.get("microbatch", number) == number
        self.ran.append(("B", number))
        return {"microbatch": number}

    def weights(self, number: int) -> None:
        self.ran.append(("W", number))


def runs_to_its_end(orders: Sequence[Sequence[Pass]]) -> None:
    """Every rank's passes, each rank a thread."""
    last = max(stage for order in orders for stage, *_ in order)
    channels = {
        (what, stage): queue.Queue[int]()
        for what in ("value", "gradient")
        for stage in range(last + 1)
    }
    failed: list[BaseException] = []

    def rank(order: Sequence[Pass]) -> None:
        stages: Any = {stage: Stage() for stage, *_ in order}
        strategy: Any = SimpleNamespace(passes=tuple(order))
        wire: Any = Wire(channels, last)
        try:
            run_step(strategy, stages, wire, lambda *_: {})
            for number, stage in stages.items():
                wanted = [("B" if w == "I" else w, m) for own, w, m in order if own == number]
                assert stage.ran == wanted
        except BaseException as why:
            failed.append(why)

    ranks = [threading.Thread(target=rank, args=(order,), daemon=True) for order in orders]
    for own in ranks:
        own.start()
    for own in ranks:
        own.join(2 * PATIENCE_S)
    assert not failed, failed
    assert not any(own.is_alive() for own in ranks)
    assert all(channel.empty() for channel in channels.values())


@st.composite
def planned_orders(draw: st.DrawFn) -> list[list[Pass]]:
    kind = draw(st.sampled_from(("gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v")))
    ranks = draw(st.integers(2, 6))
    rounds = draw(st.integers(1, 4))
    each = {"interleaved_1f1b": draw(st.integers(2, 3)), "zb_v": 2}.get(kind, 1)
    microbatches = ranks * rounds if kind == "interleaved_1f1b" else draw(st.integers(ranks, 16))
    made = schedule(kind, ranks, microbatches, each)
    return [[(stage, what.name, m) for stage, what, m in order] for order in made.orders]


@st.composite
def legal_orders(draw: st.DrawFn) -> list[list[Pass]]:
    """Passes drawn one by one of all that could be next, stages dealt to ranks at random."""
    stages, microbatches = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    halves = draw(st.booleans())
    ranks = draw(st.integers(2, stages))
    rank_of = [*range(ranks), *(draw(st.integers(0, ranks - 1)) for _ in range(stages - ranks))]
    rank_of = draw(st.permutations(rank_of))
    backward = "I" if halves else "B"
    done: set[Pass] = set()
    left = [
        (stage, what, m)
        for stage in range(stages)
        for what in ("F", backward, *(("W",) if halves else ()))
        for m in range(microbatches)
    ]
    orders: list[list[Pass]] = [[] for _ in range(ranks)]

    def may_run(own: Pass) -> bool:
        stage, what, m = own
        needs = [] if m == 0 else [(stage, what, m - 1)]
        if what == "F":
            needs += [(stage - 1, "F", m)] if stage else []
        elif what == "W":
            needs.append((stage, "I", m))
        else:
            needs.append((stage, "F", m))
            needs += [(stage + 1, what, m)] if stage < stages - 1 else []
        return done.issuperset(needs)

    while left:
        own = draw(st.sampled_from([one for one in left if may_run(one)]))
        left.remove(own)
        done.add(own)
        orders[rank_of[own[0]]].append(own)
    return orders


@settings(max_examples=60, deadline=None)
@given(planned_orders())
def test_planned_orders_run_to_their_end(orders: list[list[Pass]]) -> None:
    runs_to_its_end(orders)


@settings(max_examples=100, deadline=None)
@given(legal_orders())
def test_so_does_every_order_in_which_passes_could_run_one_after_the_other(
    orders: list[list[Pass]],
) -> None:
    runs_to_its_end(orders)
