"""The blocks of a tensor are the parts that devices hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.capture.decoder import decoder_graph
from meshwright.plugins.planner import preset
from meshwright.reports.tensor_layouts import MOST, blocks_of, layouts_of
from meshwright.schema import Degrees, Layout, Mesh, Plan, PlanError, Request, Setup
from meshwright.schema.tensor_layouts import Blocks
from meshwright_solver.verification.execution.shards import region
from tests.small_decoder import DECODER
from tests.solver.requests import planned

MESH = Mesh.model_validate(
    {
        "axes": [
            {"name": "node", "size": 2, "level": "node"},
            {"name": "gpu", "size": 4, "level": "gpu"},
        ]
    }
)


def ranks_of(text: str) -> set[int]:
    ranks: set[int] = set()
    for run in text.split(", "):
        first, _, last = run.partition("-")
        ranks.update(range(int(first), int(last or first) + 1))
    return ranks


def plan_of(**degrees: int) -> Plan:
    request = Request(
        graph=decoder_graph(replace(DECODER, layers=2), batch=32, seq=512),
        topology=preset("h100-2x4"),
        setup=Setup(global_batch=32, microbatches=1),
        degrees=Degrees(**degrees),  # type: ignore[arg-type]
    )
    return planned(request)


def check(blocks: Blocks, layout: Layout, mesh: Mesh) -> None:
    """Devices share a block exactly if they hold the same part of the tensor."""
    block_of = {
        rank: (row, column)
        for row, line in enumerate(blocks.devices)
        for column, text in enumerate(line)
        for rank in ranks_of(text)
    }
    assert sorted(block_of) == list(range(mesh.device_count))
    part_of = {rank: tuple(region(layout, mesh, rank)) for rank in block_of}
    assert len(set(part_of.values())) == len(set(block_of.values())) == blocks.rows * blocks.columns
    assert len(set(zip(part_of.values(), block_of.values(), strict=True))) == len(
        set(block_of.values())
    )


@pytest.mark.parametrize("seed", range(4))
def test_devices_share_a_block_if_they_hold_the_same_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tp = int(rng.choice([2, 4]))
    found = plan_of(dp=8 // tp, tp=tp, zero=int(rng.choice([1, 3])))
    (stage,) = found.stages
    layouts = [parameter.value for parameter in stage.parameters]
    layouts += [parameter.optimizer for parameter in stage.parameters if parameter.optimizer]
    layouts += [tensor.rest.value for tensor in stage.tensors]
    layouts += [step.to for move in stage.redistributions for step in move.forward]
    for layout in dict(zip(map(str, layouts), layouts, strict=True)).values():
        check(blocks_of(layout, stage.mesh), layout, stage.mesh)


def test_a_matrix_cut_in_both_dims_is_a_grid_of_rows_and_columns() -> None:
    # rank = 4 node + gpu; rows by gpu, columns by node
    layout = Layout.model_validate(
        {
            "dims": [
                {"parts": [{"size": 8, "axes": ["gpu"]}]},
                {"parts": [{"size": 6, "axes": ["node"]}]},
            ]
        }
    )
    blocks = blocks_of(layout, MESH, first_rank=16)
    assert blocks.devices == (("16", "20"), ("17", "21"), ("18", "22"), ("19", "23"))
    assert blocks.shape == (2, 3)


def test_a_vector_is_whole_on_every_device_or_partial() -> None:
    layout = Layout.model_validate({"dims": [{"parts": [{"size": 8}]}], "partial": {"gpu": "sum"}})
    blocks = blocks_of(layout, MESH)
    assert blocks.devices == (("0-7",),)
    assert blocks.partial == ("gpu",)


def test_of_a_large_grid_the_first_rows_are_listed() -> None:
    mesh = Mesh.model_validate({"axes": [{"name": "node", "size": 4096, "level": "node"}]})
    layout = Layout.model_validate({"dims": [{"parts": [{"size": 8192, "axes": ["node"]}]}]})
    blocks = blocks_of(layout, mesh)
    assert (blocks.rows, blocks.columns) == (4096, 1)
    assert blocks.devices == tuple((str(rank),) for rank in range(MOST))


def test_the_changes_of_a_tensor_are_those_of_the_plan() -> None:
    found = plan_of(dp=4, tp=2, zero=3)
    (stage,) = found.stages
    moved = {move.tensor for move in stage.redistributions}
    assert moved
    for tensor in moved:
        moves = [move for move in stage.redistributions if move.tensor == tensor]
        drawn = layouts_of(found, tensor)
        steps = [
            (step.kind, str(step.to))
            for move in moves
            for steps in (move.forward, move.backward, move.per_step)
            for step in steps
        ]
        changes = [
            (change.kind, change.after.layout)
            for path in drawn.paths
            for _ in range(path.readers)
            for change in path.changes
        ]
        assert sorted(steps) == sorted(changes)


def test_a_tensor_that_no_stage_has_is_refused() -> None:
    found = plan_of(dp=8)
    with pytest.raises(PlanError, match="no tensor 'nowhere'"):
        layouts_of(found, "nowhere")
    with pytest.raises(PlanError, match="Use 0 to 0"):
        layouts_of(found, found.stages[0].parameters[0].tensor, stage=3)


def test_of_many_ranges_of_ranks_the_first_two_and_the_last_are_listed() -> None:
    mesh = Mesh.model_validate(
        {
            "axes": [
                {"name": "node", "size": 16, "level": "node"},
                {"name": "gpu", "size": 4, "level": "gpu"},
            ]
        }
    )
    layout = Layout.model_validate({"dims": [{"parts": [{"size": 8, "axes": ["gpu"]}]}]})
    assert blocks_of(layout, mesh).devices[1] == ("1, 5, … 61 (16)",)
