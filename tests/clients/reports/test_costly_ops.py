"""The costliest ops of a plan: groups that hold every op once, longest first."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.capture.decoder import decoder_graph
from meshwright.common.name_ranges import pattern
from meshwright.plugins.planner import preset
from meshwright.reports.costly_ops import costliest_ops
from meshwright.reports.ops import shares_of
from meshwright.schema import Degrees, Pipeline, Recompute, Request, Setup
from tests.small_decoder import DECODER
from tests.solver.requests import planned


@pytest.mark.parametrize("seed", range(4))
def test_groups_add_up_to_all_ops_and_repeats_are_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tp, ranks = int(rng.choice([1, 2])), int(rng.choice([1, 2]))
    graph = decoder_graph(DECODER, batch=32, seq=512)
    request = Request(
        graph=graph,
        topology=preset("h100-1x4"),
        setup=Setup(global_batch=32, microbatches=2),
        degrees=Degrees(dp=4 // (tp * ranks), tp=tp),
        pipeline=Pipeline(ranks=ranks),
        recompute=Recompute(policy="none"),
    )
    found = planned(request)
    shares = tuple(shares_of(found, graph))
    groups = costliest_ops(found, shares, 10_000).groups
    assert sum(group.count for group in groups) == len(shares)
    assert sum(group.share for group in groups) == pytest.approx(1)
    assert sum(group.compute_ns for group in groups) == pytest.approx(
        sum(op.compute_ns for stage in found.stages for op in stage.ops)
    )
    times = [group.compute_ns + group.communication_ns for group in groups]
    assert times == sorted(times, reverse=True)
    assert costliest_ops(found, shares, 3).groups == groups[:3]
    (up,) = (group for group in groups if "up_proj" in group.ops)
    assert up.count == DECODER.layers
    assert up.glob == ("model.layers.*.mlp.up_proj" if ranks == 1 else "model.layers.0.mlp.up_proj")
    assert pattern(up.glob) == "model.layers.*.mlp.up_proj"
