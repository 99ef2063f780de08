"""Placements of modules: a layer worked by hand, and what modules do not state."""

from __future__ import annotations

import pytest

from meshwright.launch_options.loss_reduction import loss_reduction
from meshwright.launch_options.module_strategy import ModuleStrategy, module_strategy
from meshwright.schema import Axis, Dim, Layout, Mesh, SubDim, microbatch_symbols
from meshwright.schema.mesh import MeshAxis
from meshwright.stages.module_placements import (
    InputPlacement,
    ModulePlacement,
    NotPlaced,
    Placement,
    placement_of,
)
from tests.runtime.torch_engine.models import MODELS
from tests.runtime.torch_engine.worlds import Case, planned

SP = {"sequence_parallel": True}
TP, DP = Axis("tp"), Axis("dp")
MESH = Mesh(axes=(MeshAxis(name=DP, size=2, level="gpu"), MeshAxis(name=TP, size=2, level="gpu")))


def strategy_of(model: str, devices: int, **degrees: object) -> ModuleStrategy:
    sizes = (devices // 2, 2) if devices > 2 else ()
    file = planned(Case("own", model, degrees, sizes=sizes), devices)
    assert file.graph is not None
    assert file.setup is not None
    symbols = microbatch_symbols(file.graph, file.setup, file.plan.microbatches)
    return module_strategy(file.plan.stages[0], file.graph, symbols)


def test_a_layer_under_sequence_parallelism() -> None:
    """As Megatron-LM cuts it: columns, heads, rows; sequences between them."""
    own = strategy_of("llama", 2, tp=2, **SP)
    assert not own.unstated
    assert not own.placements.no_local
    modules = own.placements.modules

    def of(path: str, parameter: Placement, entry: InputPlacement, out: Placement) -> None:
        placed = modules[f"layers.0.{path}"]
        assert set(placed.parameters.values()) == {parameter}, path
        assert (placed.input, placed.output) == (entry, out), path

    sequence, whole = 1, "replicate"
    of("attention_norm", whole, InputPlacement(sequence, sequence), whole)
    for path in ("query", "key", "value", "gate", "up"):
        of(path, 0, InputPlacement(whole, whole), 2)
    of("out", 1, InputPlacement(2, 2), sequence)
    of("down", 1, InputPlacement(2, 2), sequence)
    # the norm passes on one gathered DTensor; plain ops read what the others pass on
    assert not modules["layers.0.attention_norm"].is_local
    assert modules["layers.0.query"].is_local
    assert own.placements.modules["table"] == ModulePlacement(
        {"table.weight": 0}, InputPlacement(whole, whole), sequence, is_local=True
    )
    # the vocabulary is cut; the loss runs on its shards where that is worth its messages
    assert own.placements.modules["head"].output == 2
    assert not own.placements.shards_classes
    assert strategy_of("large vocabulary", 2, tp=2, **SP).placements.shards_classes


def test_parameters_that_no_module_has_alone_need_the_flow_of_dtensors() -> None:
    own = strategy_of("sinks", 2, tp=2)
    assert not own.unstated
    assert own.placements.raw == {f"layers.{layer}.sinks": 0 for layer in (0, 1)}
    assert "'layers.0.sinks', which is sharded" in own.placements.no_local


def test_segments_are_no_shard_of_one_dim() -> None:
    unstated = strategy_of("gpt", 2, tp=2).unstated
    assert len(unstated) == 1
    assert unstated[0].startswith("module layers.*.fused (2 of them): tensor-parallel ranks cut")


def test_the_mesh_has_replicas_shards_and_tensor_parallel_ranks() -> None:
    own = strategy_of("llama", 4, dp=2, tp=2, zero=3, **SP)
    assert own.ranks == (((0, 1), (2, 3)),)
    assert (own.replicas, own.shards, own.tensor) == (1, 2, 2)
    assert not own.keeps_parameters
    assert own.reduce_bytes == 8
    assert strategy_of("llama", 2, dp=2, zero=0).ranks == (((0,),), ((1,),))
    assert strategy_of("llama", 2, dp=2, zero=2).keeps_parameters


def test_recomputation_of_single_ops_is_refused() -> None:
    file = planned(Case("own", "llama", {"dp": 2}, recompute="cheap"), 2)
    assert file.graph is not None
    assert file.setup is not None
    symbols = microbatch_symbols(file.graph, file.setup, file.plan.microbatches)
    (why,) = module_strategy(file.plan.stages[0], file.graph, symbols).unstated
    assert why.startswith("recomputation 'cheap'")


def test_statistics_and_choices_of_the_whole_batch_are_refused() -> None:
    assert "whole batch" in strategy_of("faces", 2, dp=2, zero=3).unstated[0]
    assert not strategy_of("transformers vit", 2, dp=2, zero=3).unstated


@pytest.mark.parametrize(
    ("parts", "partial", "expected"),
    [
        ([((8, ()),), ((4, ()),)], (), "replicate"),
        ([((8, (TP,)),), ((4, ()),)], (), 0),
        ([((8, ()),), ((2, (TP,)), (2, ()))], (), 1),
        ([((8, (TP, DP)),), ((4, ()),)], (), 0),
        ([((8, ()),), ((4, ()),)], (TP,), "partial"),
        ([((8, (DP, TP)),), ((4, ()),)], (), None),
        ([((2, ()), (4, (TP,))), ((4, ()),)], (), None),
    ],
)
def test_placement_of_a_layout(
    parts: list[tuple[tuple[int, tuple[Axis, ...]], ...]],
    partial: tuple[Axis, ...],
    expected: Placement | None,
) -> None:
    dims = tuple(Dim(parts=tuple(SubDim(size=s, axes=a) for s, a in own)) for own in parts)
    layout = Layout(dims=dims, partial=dict.fromkeys(partial, "sum"))
    if expected is None:
        with pytest.raises(NotPlaced):
            placement_of(layout, (TP,), MESH)
    else:
        assert placement_of(layout, (TP,), MESH) == expected


def test_segments_of_a_dim_are_not_placed() -> None:
    dim = Dim(parts=(SubDim(size=12, axes=(TP,)),), segments=(4, 4, 4))
    with pytest.raises(NotPlaced, match="each of the parts of dim 0 of 12"):
        placement_of(Layout(dims=(dim,)), (TP,), MESH)


@pytest.mark.parametrize(
    ("model", "reduction"), [("llama", "mean"), ("chain", "sum"), ("wide and deep", "mean")]
)
def test_the_reduction_of_a_loss(model: str, reduction: str) -> None:
    found, parts = loss_reduction(MODELS[model].graph(4))
    assert found == reduction
    assert MODELS[model].graph(4).loss in parts
