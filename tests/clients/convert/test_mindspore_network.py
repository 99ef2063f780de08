"""Plans of captured MindSpore networks: what primitives are given, and MindSpore's own file.

Graphs and files in tests/data/mindspore were written by MindSpore 2.10.0; that it compiles what is
exported here `make test-mindspore` shows.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from meshwright.convert import MindSporeNetwork, network_of
from meshwright.planfile import PlanFile
from meshwright.schema import (
    ConversionError,
    Degrees,
    Pin,
    Pipeline,
    Plan,
    PlanError,
    Recompute,
    Setup,
)
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents
from tests.clients.conftest import Run
from tests.mindspore.cases import (
    CALIBRATION,
    CASES,
    DATA,
    MODELS,
    SETUP,
    graph_of,
    network,
    planned,
)
from tests.one_stage import one_stage_request


def data(name: str) -> str:
    return gzip.decompress((DATA / f"{name}.json.gz").read_bytes()).decode()


@pytest.mark.parametrize("name", CASES)
def test_the_strategy_file_is_the_one_that_mindspore_writes(name: str) -> None:
    exported = MindSporeNetwork.model_validate_json(data(f"{name}.network"))
    assert exported.strategy_file() == json.loads(data(f"{name}.strategies"))


@pytest.mark.parametrize("name", CASES)
def test_every_operator_of_a_captured_graph_has_a_strategy(name: str) -> None:
    exported = network(name)
    graph = graph_of(CASES[name].model)
    assert not exported.refused
    told = {op.name: op.module for op in graph.ops if op.kind not in ("reshape", "cast")}
    assert exported.operators == told
    assert set(exported.primitives) == set(told.values())
    assert set(exported.reshapes) == {op.name for op in graph.ops if op.kind == "reshape"}
    shapes = graph.instantiate({})
    for op in graph.ops:
        if op.name in told:
            own = exported.primitives[op.module].in_strategy
            cut = op.outputs if op.kind == "one_hot" else op.inputs
            assert len(own) == len(op.inputs)
            for tensor, cuts in zip(cut, own, strict=False):
                assert all(size % by == 0 for size, by in zip(shapes[tensor], cuts, strict=True))


@pytest.mark.parametrize("model", MODELS)
def test_a_captured_graph_keeps_the_names_of_mindspore(model: str) -> None:
    graph = graph_of(model)
    assert all(op.name.startswith("Default/") and op.module for op in graph.ops)
    assert graph.loss == graph.outputs[0]
    assert "batch" in graph.symbols


def test_tensor_parallelism_is_columns_and_rows() -> None:
    own = network("gpt-dp2-tp4").primitives
    assert own["blocks.3.up.matmul"].in_strategy == ((2, 1), (1, 4))
    assert own["blocks.3.down.matmul"].in_strategy == ((2, 4), (4, 1))
    assert own["blocks.3.qk"].in_strategy == ((2, 4, 1, 1), (2, 4, 1, 1))
    assert own["blocks.3.tq"].in_strategy == ((2, 1, 4, 1),)  # a view: as what it views lies
    assert own["blocks.3.scale"].in_strategy == ((2, 4, 1, 1), ())


def test_what_cuts_cannot_place_is_a_layout() -> None:
    own = network("mlp-layouts").primitives["act"]
    assert (own.in_strategy, own.in_layout) == (((1, 4),), (("None", "tp"),))
    assert network("mlp-layouts").primitives["act2"].in_layout is None


def test_partial_sums_are_scattered_right_behind_the_product() -> None:
    # fc3's sums are scattered along the batch, which MindSpore can be told
    assert network("mlp").primitives["fc3.matmul"].out_strategy == ((8, 1),)
    # fc2's along the columns, which it cannot
    assert network("mlp").primitives["fc2.matmul"].out_strategy is None
    (said,) = [own for own in network("mlp").otherwise if "fc2" in own.tensor]
    assert (said.planned, said.done) == (("reduce_scatter",), ("all_reduce",))


@pytest.mark.parametrize(
    ("model", "path", "cuts"),
    [
        ("widedeep", "wide_gather", (((8, 1), (1, 1)), ((8, 1, 1),))),
        ("mlp", "fc3.matmul", (((1, 8), (8, 1)), ((8, 1),))),
        ("mlp", "fc2.matmul", (((4, 2), (2, 1)), ((8, 1),))),
        ("mlp", "fc1.matmul", (((4, 2), (2, 1)), ((8, 1),))),
    ],
)
def test_a_result_strategy_is_exported_as_it_was_pinned(
    model: str, path: str, cuts: tuple[Any, Any]
) -> None:
    graph = graph_of(model)
    pin = Pin(op=path, inputs=cuts[0], outputs=cuts[1])
    request = one_stage_request(
        graph=graph, topology=preset("910b-1x8"), setup=SETUP, calibration=CALIBRATION, pins=(pin,)
    )
    planned_again = plan(request).plan
    assert planned_again is not None
    exported = network_of(planned_again, graph, SETUP).primitives[path]
    assert (exported.in_strategy, exported.out_strategy) == cuts


@pytest.mark.parametrize("name", ["gpt-dp2-tp4", "reid-level2", "widedeep"])
def test_plans_with_mindspores_rules_compute_what_one_device_does(name: str) -> None:
    model = CASES[name].model
    found = verify_documents(planned(name), graph_of(model), preset("910b-1x8"), SETUP, CALIBRATION)
    assert found.outcome == "verified", found.detail


def changed(name: str, op: str, **update: object) -> Plan:
    """A plan with another strategy for one op."""
    plan = planned(name)
    ops = tuple(
        own.model_copy(update=update) if own.op.endswith(op) else own for own in plan.stages[0].ops
    )
    stage = plan.stages[0].model_copy(update={"ops": ops})
    return plan.model_copy(update={"stages": (stage,)})


def test_an_operator_without_layouts_is_refused_by_name_where_cuts_lie_elsewhere() -> None:
    plan = changed("mlp-layouts", "loss-ClassLoss/ReduceMean-op0", strategy={"d0": ("tp",)})
    exported = network_of(plan, graph_of("mlp"), SETUP)
    (refusal,) = exported.refused
    assert refusal.name == "Default/loss-ClassLoss/ReduceMean-op0"
    assert "takes no Layout" in refusal.reason
    assert "loss.mean" not in exported.primitives
    with pytest.raises(ConversionError, match="strategy, and 1 cannot be expressed"):
        exported.strategy_file()


def test_an_op_of_unknown_kind_is_refused_by_name() -> None:
    plan = changed("mlp", "Default/ReLU-op0", rule=None, strategy={})
    (refusal,) = network_of(plan, graph_of("mlp"), SETUP).refused
    assert "'Default/ReLU-op0'" in refusal.reason


def test_a_primitive_that_runs_twice_has_one_strategy() -> None:
    graph = graph_of("mlp")
    shared = graph.model_copy(
        update={
            "ops": tuple(
                op.model_copy(update={"module": "act"}) if op.module == "act2" else op
                for op in graph.ops
            )
        }
    )
    plan = changed("mlp", "Default/ReLU-op1", strategy={"d0": ("npu0", "npu1", "npu2")})
    plan = plan.model_copy(update={"graph": shared.id})
    (refusal,) = network_of(plan, shared, SETUP).refused
    assert "its primitive 'act' runs several times" in refusal.reason


def test_parameters_in_shards_of_different_levels_are_refused_by_name() -> None:
    plan = planned("reid-level2")
    own = plan.stages[0].parameters
    sharded = [p for p in own if p.gradient != p.value]
    assert len(sharded) > 1
    other = sharded[0].model_copy(update={"gradient": sharded[0].value})
    stage = plan.stages[0].model_copy(
        update={"parameters": tuple(other if p is sharded[0] else p for p in own)}
    )
    exported = network_of(plan.model_copy(update={"stages": (stage,)}), graph_of("reid"), SETUP)
    (refusal,) = exported.refused
    assert (refusal.name, refusal.role) == (other.tensor, "optimizer")
    assert "level1" in refusal.reason
    assert "level2" in refusal.reason


def test_pipelines_microbatches_and_other_setups_are_refused() -> None:
    plan, graph = planned("mlp"), graph_of("mlp")
    twice = plan.model_copy(update={"stages": plan.stages * 2})
    with pytest.raises(PlanError, match=r"2 pipeline stage\(s\)"):
        network_of(twice, graph, SETUP)
    with pytest.raises(PlanError, match=r"4 microbatch\(es\)"):
        network_of(plan.model_copy(update={"microbatches": 4}), graph, SETUP)
    with pytest.raises(PlanError, match="was made for the setup"):
        network_of(plan, graph, Setup())


def test_the_commands_write_networks_and_strategy_files(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    PlanFile(plan=planned("mlp"), graph=graph_of("mlp"), setup=SETUP).write(file)
    ran = run("export", file, "--to", "mindspore-network")
    assert ran.code == 0, ran.err
    assert MindSporeNetwork.model_validate_json(ran.out) == network("mlp")
    assert "11 primitives for mindspore; 0 ops cannot be expressed, 2 tensors" in ran.err
    assert "otherwise in mindspore: tensor 'Default/fc2-Linear/MatMul-op0': all_reduce" in ran.err
    ran = run("export", file, "--to", "mindspore-strategies")
    assert json.loads(ran.out) == network("mlp").strategy_file()
    bare = tmp_path / "bare.json"
    bare.write_text(planned("mlp").to_json())
    ran = run("export", bare, "--to", "mindspore-network")
    assert ran.code != 0
    assert "needs the graph and the setup" in ran.err


@pytest.mark.parametrize("communication", ["repeat", "keep"])
def test_recomputation_and_its_communication_reach_the_primitives(communication: str) -> None:
    recompute = Recompute.model_validate(
        {"policy": "stated", "ops": ["*MatMul*", "*ReLU*", "*Add*"], "communication": communication}
    )
    graph = graph_of("mlp")
    request = one_stage_request(
        graph=graph,
        topology=preset("910b-1x8"),
        setup=SETUP,
        calibration=CALIBRATION,
        degrees=Degrees(dp=2, tp=4),
        pipeline=Pipeline(ranks=1),
        recompute=recompute,
    )
    found = plan(request).plan
    assert found is not None
    (stage,) = found.stages
    assert stage.recompute is not None
    again = {op for segment in stage.recompute.segments for op in segment.again}
    exported = network_of(found, graph, SETUP)
    told = {
        name for name, path in exported.operators.items() if exported.primitives[path].recompute
    }
    assert told == again & exported.operators.keys()
    flags = {exported.primitives[exported.operators[name]].mp_comm_recompute for name in told}
    assert (False in flags) <= (communication == "keep")
