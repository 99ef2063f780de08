"""No stated strategy is faster than the default answer: random degrees, ranks, counts, policies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from examples.catalogue import EXAMPLES
from meshwright.schema import (
    Budget,
    Degrees,
    InvalidInput,
    Pipeline,
    Recompute,
    RecomputePolicy,
    Request,
    Setup,
    Topology,
)
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.solver.requests import planned

SLACK = 1.005  # of the issue: what the simplest plan may take longer
POLICIES: tuple[RecomputePolicy, ...] = ("none", "cheap", "full")


class Stated(NamedTuple):
    """A strategy as frameworks state it."""

    degrees: Degrees
    microbatches: int
    policy: RecomputePolicy
    ranks: int = 1

    @property
    def options(self) -> dict[str, object]:
        """The options of a request for this strategy."""
        return {
            "degrees": self.degrees,
            "microbatches": self.microbatches,
            "recompute": Recompute(policy=self.policy),
            "pipeline": Pipeline(ranks=self.ranks, schedule=None if self.ranks == 1 else "1f1b"),
        }


def _request(name: str, devices: Topology, batch: int, seq: int, **wishes: object) -> Request:
    (example,) = [own for own in EXAMPLES if own.name == name]
    setup = Setup(
        global_batch=batch,
        symbols={"seq": seq} if seq else {},
        microbatches=wishes.pop("microbatches", None),
    )
    budget = Budget(seconds=None)
    return Request(graph=example.load(), topology=devices, setup=setup, budget=budget, **wishes)


def _slow(devices: Topology, bytes_per_s: float) -> Topology:
    """The cluster with another network between its nodes."""
    level, *inner = devices.levels
    link = level.link.model_copy(update={"bytes_per_s": bytes_per_s})
    return devices.like(levels=(level.model_copy(update={"link": link}), *inner))


def _drawn(
    seed: int, devices: int, batch: int, *, has_experts: bool, few_axes: bool
) -> Iterator[Stated]:
    source = random.Random(seed)
    while True:
        tp, cp = source.choice([1, 1, 1, 2, 4, 8]), source.choice([1, 1, 1, 2])
        ranks, rounds = source.choice([1, 1, 2, 4]), source.choice([1, 2, 4, 8])
        count, left = ranks * rounds, devices // tp // cp // ranks
        is_slow = few_axes and tp > 1 and cp > 1
        if is_slow or not left or batch % count or (batch // count) % left:
            continue
        degrees = Degrees(
            tp=tp,
            cp=cp,
            ep=source.choice([1, 2, 4, 8]) if has_experts else 1,
            zero=source.choice([1, 2, 3]),
            sequence_parallel=tp > 1 and source.random() < 0.7,
        )
        yield Stated(degrees, count, source.choice(POLICIES), ranks)


def _beaten_by(
    name: str,
    devices: Topology,
    batch: int,
    seq: int,
    *,
    count: int,
    seed: int,
    few_axes: bool = False,
) -> tuple[list[tuple[float, Stated]], int]:
    """Of `count` stated strategies that fit: those faster than the search's plan, by how much."""
    best = planned(_request(name, devices, batch, seq))
    has_experts = name == "mixtral-8x7b"
    drawn = _drawn(seed, devices.device_count, batch, has_experts=has_experts, few_axes=few_axes)
    faster, fitting = [], 0
    for _ in range(20 * count):
        if fitting == count:
            break
        stated = next(drawn)
        try:
            answer = plan(_request(name, devices, batch, seq, **stated.options))
        except InvalidInput:
            continue  # a degree that the graph does not have
        use = None if answer.plan is None else answer.plan.cost.memory_bytes
        if answer.plan is None or use is None or use.total > use.capacity:
            continue
        fitting += 1
        ratio = answer.plan.cost.step_ns / best.cost.step_ns
        if ratio * SLACK < 1:
            faster.append((ratio, stated))
    return faster, fitting


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.long)])
def test_random_strategies_are_not_faster(slow: bool) -> None:
    devices = preset("a100-40g-2x8")
    devices = _slow(devices, 1e9) if slow else devices
    faster, fitting = _beaten_by("llama3-8b", devices, 32, 4096, count=5, seed=1, few_axes=True)
    assert fitting == 5
    assert faster == []


# The three that a stated strategy beat by 9.5, 3.4 and 0.02 % (at 20 GiB less), with that strategy.
BEATEN = [
    pytest.param(
        "mixtral-8x7b", "a100-80g-8x8", 128, Stated(Degrees(zero=3), 1, "cheap"),
        marks=pytest.mark.long,
    ),
    pytest.param(
        "llama3-70b", "h100-32x8", 512, Stated(Degrees(zero=3), 2, "cheap"),
        marks=pytest.mark.long,
    ),
    pytest.param("llama3-8b", "h100-4x8", 128, Stated(Degrees(zero=3), 2, "none")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cluster", "batch", "stated"), BEATEN)
def test_what_once_was_faster_is_not(name: str, cluster: str, batch: int, stated: Stated) -> None:
    devices = preset(cluster)
    found = planned(_request(name, devices, batch, 4096))
    other = planned(_request(name, devices, batch, 4096, **stated.options))
    assert found.cost.step_ns <= other.cost.step_ns * 1.0005
    assert found.cost.memory_bytes.total <= 1.01 * other.cost.memory_bytes.total


LONG = [
    ("mixtral-8x7b", "h100-8x8", 256, 4096),
    ("llama3-8b", "h100-8x8", 128, 8192),
    ("llama3-8b", "a100-40g-2x8", 32, 4096),
    ("llama3-70b", "h100-8x8", 64, 4096),
    ("bert-large", "v100-2x8", 512, 512),
    ("gpt3-175b", "a100-80g-32x8", 512, 2048),
]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "cluster", "batch", "seq"), LONG)
def test_many_random_strategies_are_not_faster(
    name: str, cluster: str, batch: int, seq: int
) -> None:
    faster, fitting = _beaten_by(name, preset(cluster), batch, seq, count=85, seed=2)
    assert fitting == 85
    assert faster == []
