"""The parallelism of a plan by module follows the strategies of its ops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.capture.decoder import decoder_graph
from meshwright.launch_options.roles import op_roles
from meshwright.plugins.planner import preset
from meshwright.render.parallel_shares import parallel_rows
from meshwright.reports.parallel_shares import parallel_shares
from meshwright.schema import Budget, Degrees, Graph, Pin, Pipeline, Plan, Recompute, Request, Setup
from meshwright.schema.parallel_shares import ParallelShare
from tests.small_decoder import DECODER
from tests.solver.requests import planned

DEEPER = replace(DECODER, layers=8)


def shares_of_plan(found: Plan, graph: Graph) -> tuple[ParallelShare, ...]:
    return parallel_shares([(stage, op_roles(stage, graph)) for stage in found.stages])


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_of_stated_degrees_cuts_all_large_modules_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tp, ranks = int(rng.choice([1, 2, 4])), int(rng.choice([1, 2]))
    dp = 8 // (tp * ranks)
    graph = decoder_graph(
        replace(DECODER, layers=int(rng.integers(2, 5)) * ranks), batch=32, seq=512
    )
    request = Request(
        graph=graph,
        topology=preset("h100-1x8"),
        setup=Setup(global_batch=32, microbatches=4),
        degrees=Degrees(dp=dp, tp=tp),
        pipeline=Pipeline(ranks=ranks),
        recompute=Recompute(policy="none"),
    )
    rows = shares_of_plan(planned(request), graph)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert [row.share for row in rows if row.modules] == sorted(
        (row.share for row in rows if row.modules), reverse=True
    )
    wanted = {role: count for role, count in (("dp", dp), ("tp", tp)) if count > 1}
    blocks = [row for row in rows if row.modules.endswith(("mlp", "self_attn"))]
    assert blocks
    assert all(row.ways == wanted for row in blocks)


def test_layers_that_are_pinned_otherwise_are_a_row_of_their_own() -> None:
    graph = decoder_graph(DEEPER, batch=32, seq=512)
    products = sorted(op.name for op in graph.ops if op.kind == "linear" and ".mlp." in op.module)
    pins = tuple(
        Pin(op=name, strategy={"b0": ("gpu",)} if number < 2 else {"n": ("gpu",)})
        for number in range(DEEPER.layers)
        for name in products
        if f"layers.{number}." in name
    )
    request = Request(
        graph=graph,
        topology=preset("h100-1x8"),
        setup=Setup(global_batch=32, microbatches=1),
        pipeline=Pipeline(ranks=1),
        recompute=Recompute(policy="none"),
        budget=Budget(max_axes=1),
        pins=pins,
    )
    found = planned(request)
    rows = {
        row.modules: (row.count, row.ways)
        for row in shares_of_plan(found, graph)
        if ".mlp" in row.modules and row.share > 0.02
    }
    assert sorted(rows.values(), key=str) == [(2, {"dp": 8}), (6, {"tp": 8})]
    text = "\n".join(row for _, row in parallel_rows(found, graph))
    assert "mlp ×2: dp 8 (" in text
    assert "mlp ×6: tp 8 (" in text


def test_the_summary_of_modules_that_are_cut_alike_has_no_rows() -> None:
    graph = decoder_graph(DEEPER, batch=32, seq=512)
    request = Request(
        graph=graph,
        topology=preset("h100-1x8"),
        setup=Setup(global_batch=32, microbatches=1),
        degrees=Degrees(dp=8),
        pipeline=Pipeline(ranks=1),
    )
    found = planned(request)
    assert not list(parallel_rows(found, graph))
    assert not list(parallel_rows(found, None))
