"""The communication of a plan adds up to its cost, in time and in bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from meshwright.capture.decoder import decoder_graph
from meshwright.plugins.planner import preset
from meshwright.reports.communication import INSIDE, communication_of
from meshwright.reports.ops import shares_of
from meshwright.schema import Degrees, Pipeline, Recompute, Request, Setup
from tests.small_decoder import DECODER
from tests.solver.requests import planned


@pytest.mark.parametrize("seed", range(6))
def test_times_and_bytes_add_up_to_those_of_the_plan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tp, microbatches = int(rng.choice([1, 2, 4])), int(rng.choice([1, 2]))
    graph = decoder_graph(
        replace(DECODER, layers=int(rng.integers(2, 7)), gated=bool(rng.integers(2))),
        batch=32,
        seq=512,
    )
    request = Request(
        graph=graph,
        topology=preset("h100-2x4"),
        setup=Setup(global_batch=32, microbatches=microbatches),
        degrees=Degrees(
            dp=8 // tp,
            tp=tp,
            zero=int(rng.choice([1, 3])),
            sequence_parallel=tp > 1,  # type: ignore[arg-type]
        ),
        pipeline=Pipeline(ranks=1),
        recompute=Recompute(policy="none"),
    )
    made = planned(request)
    (stage,) = made.stages
    found = communication_of(made, tuple(shares_of(made, graph)))
    times: Counter[str] = Counter()
    for group in found.groups:
        times["activation" if group.traffic == INSIDE else group.traffic] += group.ns  # type: ignore[assignment]
    wanted = {kind: ns for kind, ns in made.cost.communication_ns.items() if ns}
    assert {kind: ns for kind, ns in times.items() if ns} == pytest.approx(wanted)
    assert [group.ns for group in found.groups] == sorted(
        (group.ns for group in found.groups), reverse=True
    )
    moved = sum(
        step.payload_bytes * times
        for move in stage.redistributions
        for steps, times in (
            (move.forward, microbatches * (1 + move.again)),
            (move.backward, microbatches),
            (move.per_step, 1),
        )
        for step in steps
        if step.kind not in ("slice", "mask")
    )
    inside = sum(step.payload_bytes for op in stage.ops for step in op.own_steps)
    assert sum(group.step_bytes for group in found.groups) == moved + microbatches * inside > 0
    levels = {axis.name: axis.level for axis in stage.mesh.axes}
    for group in found.groups:
        assert group.calls >= group.count
        assert group.step_bytes >= group.call_bytes
        assert set(group.levels) == {levels[axis] for axis in group.axes}
