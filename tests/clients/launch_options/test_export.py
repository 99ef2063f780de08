"""Plans as launch options: what was stated comes back, and what is lost is said."""

from __future__ import annotations

import argparse
import json
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from meshwright.common.files import read_document
from meshwright.launch_options import (
    Uniform,
    accelerate,
    deepspeed,
    launch_of,
    lost_of,
    megatron,
    mindformers,
    torchtitan,
    uniform_of,
)
from meshwright.schema import (
    Cache,
    Constraints,
    Degrees,
    Graph,
    OptimizerParallel,
    Pipeline,
    PlanError,
    Recompute,
    Request,
    Setup,
)
from meshwright.schema.target import TARGETS, Target
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.clients.conftest import Run
from tests.one_stage import one_stage_request
from tests.solver.layered import layered
from tests.solver.requests import toy_request, transformer_mlp
from tests.solver.small_graphs import topology

GRAPHS = Path(__file__).parents[3] / "examples" / "graphs"


def stored(name: str) -> Graph:
    return read_document(GRAPHS / f"{name}.json.gz", Graph)


def request(
    graph: Graph, topology: str, batch: int, microbatches: int, **degrees: object
) -> Request:
    return one_stage_request(
        graph=graph,
        topology=preset(topology),
        setup=Setup(global_batch=batch, microbatches=microbatches),
        degrees=Degrees.model_validate(degrees),
    )


def test_rows_and_owners_are_said_to_get_lost() -> None:
    whole = OptimizerParallel(level=1, whole_parameters=True, threshold_kb=0)
    for constraints in (
        Constraints(optimizer_parallel=whole),
        Constraints(sparse_gradients=("*",)),
    ):
        own = toy_request(
            graph=transformer_mlp(6, rows=3, width=35).graph("loss:out", loss="loss:out"),
            topology=topology(3),
            setup=Setup(microbatches=1),
            constraints=constraints,
        )
        found = plan(own).plan
        assert found is not None
        parameters = found.stages[0].parameters
        unlike = {p.tensor for p in parameters if p.owner or p.sparse_gradient}
        assert unlike
        said = [one for one in uniform_of(found, own.graph).differing if one.name in unlike]
        phrases = ("holds its whole", "rows")
        assert {one.name for one in said if any(text in one.what for text in phrases)} == unlike


@pytest.mark.parametrize("launcher", TARGETS)
def test_summed_gradients_are_said_to_get_lost(launcher: Target) -> None:
    graph = transformer_mlp(6).graph("loss:out", loss="loss:out")
    for gradients, lines in (("mean", 0), ("sum", 1)):
        setup = Setup.model_validate({"microbatches": 1, "gradients": gradients})
        found = plan(toy_request(graph=graph, topology=topology(2), setup=setup)).plan
        assert found is not None
        lost = launch_of(found, launcher, graph=graph, setup=setup).lost
        assert len([line for line in lost if "summed over the batch" in line]) == lines


def uniform(own: Request) -> Uniform:
    answer = plan(own)
    assert answer.plan is not None
    return uniform_of(answer.plan, own.graph, own.setup)


# --- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "degrees",
    [
        {"dp": 64},
        {"dp": 64, "zero": 3},
        {"dp": 8, "tp": 8, "zero": 1, "sequence_parallel": True},
        {"dp": 16, "tp": 4, "zero": 2},
        {"dp": 8, "tp": 4, "cp": 2, "zero": 1, "sequence_parallel": True},
        {"dp": 8, "cp": 8},
    ],
    ids=str,
)
def test_degrees_of_a_dense_model_come_back(degrees: dict[str, object]) -> None:
    found = uniform(request(stored("llama3-8b"), "h100-8x8", 128, 2, **degrees))
    assert found.degrees == Degrees.model_validate(degrees)
    assert (found.microbatches, found.global_batch, found.sequence) == (2, 128, 8192)
    assert found.microbatch_size == 128 // (2 * int(str(degrees["dp"])))
    assert found.differing == ()


@pytest.mark.parametrize(
    "degrees",
    [{"dp": 64, "ep": 8, "zero": 1}, {"dp": 8, "tp": 8, "ep": 8, "sequence_parallel": True}],
    ids=str,
)
def test_degrees_of_experts_come_back(degrees: dict[str, object]) -> None:
    found = uniform(request(stored("mixtral-8x7b"), "h100-8x8", 64, 1, **degrees))
    assert found.degrees == Degrees.model_validate(degrees)
    assert found.differing == ()


def test_pipelines_and_layers_come_back() -> None:
    own = request(layered(8, batch=16), "h100-4x2", 16, 8, tp=2).model_copy(
        update={"pipeline": Pipeline(ranks=2, stages_per_rank=2)}
    )
    found = uniform(own)
    assert (found.pipeline_ranks, found.stages_per_rank) == (2, 2)
    assert found.schedule == "interleaved_1f1b"
    assert found.layers == (2, 2, 2, 2)
    assert found.degrees == Degrees(dp=2, tp=2)


@pytest.mark.parametrize(
    ("devices", "shard_size", "over"),
    # within one level too, where the degree is one axis; 3 divides no 8 devices, 2 do
    [("2x4", 4, 4), ("1x8", 4, 4), ("1x8", 2, 2), ("4x2", 4, 4), ("1x8", 3, 2), ("2x4", 2, 2)],
)
def test_hybrid_sharding_comes_back(devices: str, shard_size: int, over: int) -> None:
    graph = transformer_mlp(64, width=512).graph("loss:out", loss="loss:out")
    own = request(graph, f"h100-{devices}", 64, 2, dp=8, zero=1)
    limited = Constraints(optimizer_parallel=OptimizerParallel(shard_size=shard_size))
    found = uniform(own.model_copy(update={"constraints": limited}))
    assert found.degrees == Degrees(dp=8, zero=1)
    assert found.zero_size == over
    instances = str(8 // over)
    assert ("--num-distributed-optimizer-instances", instances) in megatron.arguments(found)
    replicated = torchtitan.sections(found)["parallelism"]["data_parallel_replicate_degree"]
    assert replicated == 8 // over


def test_a_searched_plan_has_degrees_and_what_differs() -> None:
    graph = stored("llama3-8b")
    own = one_stage_request(graph=graph, topology=preset("h100-3x4"), setup=Setup(global_batch=48))
    found = uniform(own)
    assert found.degrees.dp is not None
    assert found.degrees.dp * found.degrees.tp * found.degrees.cp == 12
    names = {difference.name: difference for difference in found.differing}
    assert any(name.startswith("model.layers.*.") for name in names)
    assert all(difference.count > 0 and difference.what for difference in names.values())


def test_microbatches_that_take_turns_come_back() -> None:
    """MindFormers has a word for them, Megatron-LM for experts' all-to-alls alone."""
    dense = request(stored("llama3-8b"), "h100-8x8", 128, 4, dp=8, tp=8)
    experts = request(stored("mixtral-8x7b"), "h100-8x8", 256, 4, dp=64, ep=8)
    for own in (dense, experts):
        again = own.model_copy(update={"setup": own.setup.like(copies=2)})
        found = uniform(again)
        assert found.copies == 2
        options = mindformers.sections(found)
        assert options["micro_batch_interleave_num"] == 2
        runner = options["runner_config"]
        assert isinstance(runner, dict)
        assert runner["gradient_accumulation_steps"] == 2
        assert runner["batch_size"] == found.microbatch_size
        flag = ("--overlap-moe-expert-parallel-comm", "")
        assert (flag in megatron.arguments(found)) == (found.degrees.ep > 1)
        for launcher in (megatron, torchtitan):
            assert any("take turns" in said for said in launcher.lost(found))
        assert "micro_batch_interleave_num" not in mindformers.sections(uniform(own))


def test_what_is_recomputed_comes_back() -> None:
    own = request(stored("llama3-8b"), "h100-8x8", 128, 2, dp=8, tp=8)
    again = own.model_copy(update={"recompute": Recompute(policy="full")})
    found = uniform(again)
    assert found.recompute == "full"
    assert ("--recompute-granularity", "full") in megatron.arguments(found)
    assert uniform(own).recompute == "none"


def test_the_graph_of_another_plan_is_refused() -> None:
    own = request(layered(8, batch=16), "h100-1x2", 16, 8, tp=2)
    answer = plan(own)
    assert answer.plan is not None
    with pytest.raises(PlanError, match="the plan was made for the graph"):
        launch_of(answer.plan, "megatron-core", graph=layered(4))


@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
def test_launchers_are_told_how_sequences_are_cut(order: str) -> None:
    """Megatron-LM and torchtitan cut them in early and late chunks whatever the plan says, and
    MindSpore never."""
    own = request(stored("llama3-8b"), "h100-8x8", 128, 2, dp=8, cp=8)
    setup = own.setup.model_copy(update={"sequence_order": order})
    found = uniform(own.model_copy(update={"setup": setup}))
    assert found.is_zigzag == (order == "zigzag")
    for launcher in (megatron, torchtitan):
        said = [text for text in launcher.lost(found) if "early and a late" in text]
        assert bool(said) == (order == "contiguous")
    said = [text for text in mindformers.lost(found) if "contiguous parts" in text]
    assert bool(said) == (order == "zigzag")


# --- texts ----------------------------------------------------------------------------------------

TP = Degrees(dp=4, tp=8, cp=2, ep=4, zero=1, sequence_parallel=True)
OWN = Uniform(
    degrees=TP,
    zero_size=8,
    pipeline_ranks=4,
    stages_per_rank=2,
    schedule="interleaved_1f1b",
    layers=(4,) * 8,
    microbatches=16,
    global_batch=128,
    sequence=4096,
    recompute="full",
)


def megatron_parser() -> argparse.ArgumentParser:
    """The arguments that Megatron-LM declares (megatron/training/arguments.py) of those written."""
    parser = argparse.ArgumentParser()
    for name in (
        "tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size",
        "expert-model-parallel-size", "expert-tensor-parallel-size", "micro-batch-size",
        "num-virtual-stages-per-pipeline-rank", "global-batch-size", "seq-length",
        "num-distributed-optimizer-instances", "recompute-num-layers",
        "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int)
    for name in (
        "sequence-parallel", "use-distributed-optimizer", "use-megatron-fsdp",
        "no-gradient-accumulation-fusion",
    ):  # fmt: skip
        parser.add_argument(f"--{name}", action="store_true")
    strategies = ["no_shard", "optim", "optim_grads", "optim_grads_params"]
    parser.add_argument("--data-parallel-sharding-strategy", choices=strategies)
    parser.add_argument("--ckpt-format", choices=["torch_dist", "fsdp_dtensor"])
    parser.add_argument("--recompute-granularity", choices=["full", "selective"])
    parser.add_argument("--recompute-method", choices=["uniform", "block"])
    return parser


def parsed(own: Uniform) -> argparse.Namespace:
    return megatron_parser().parse_args(shlex.split(megatron.text(own).replace("\\\n", " ")))


def test_megatron_reads_its_arguments() -> None:
    found = parsed(OWN)
    assert found.tensor_model_parallel_size == found.expert_tensor_parallel_size == 8
    assert found.pipeline_model_parallel_size == 4
    assert found.num_virtual_stages_per_pipeline_rank == 2
    assert (found.context_parallel_size, found.expert_model_parallel_size) == (2, 4)
    assert found.sequence_parallel
    assert found.use_distributed_optimizer
    assert (found.micro_batch_size, found.global_batch_size) == (128 // (16 * 4), 128)
    assert (found.recompute_granularity, found.recompute_method) == ("full", "uniform")
    fsdp = parsed(OWN.model_copy(update={"degrees": TP.model_copy(update={"zero": 3})}))
    assert fsdp.data_parallel_sharding_strategy == "optim_grads_params"


def test_megatron_takes_other_numbers_of_layers_at_the_ends() -> None:
    single = OWN.model_copy(update={"stages_per_rank": 1, "schedule": "1f1b"})
    ends = parsed(single.model_copy(update={"layers": (7, 8, 8, 6)}))
    assert ends.decoder_first_pipeline_num_layers == 7
    assert ends.decoder_last_pipeline_num_layers == 6


def test_torchtitan_reads_its_toml() -> None:
    found = tomllib.loads(torchtitan.text(OWN))
    assert found == torchtitan.sections(OWN)
    parallelism = found["parallelism"]
    degrees = ("replicate", "shard")
    assert [parallelism[f"data_parallel_{own}_degree"] for own in degrees] == [1, 4]
    assert parallelism["pipeline_parallel_schedule"] == "Interleaved1F1B"
    assert parallelism["pipeline_parallel_layers_per_stage"] == 4
    assert found["training"] == {
        "local_batch_size": 32, "global_batch_size": 128, "seq_len": 4096
    }  # fmt: skip
    assert found["activation_checkpoint"] == {"mode": "full"}


def test_mindformers_reads_its_yaml() -> None:
    found = yaml.safe_load(mindformers.text(OWN))
    assert found == mindformers.sections(OWN)
    config = found["parallel_config"]
    assert (config["data_parallel"], config["model_parallel"]) == (4, 8)
    assert (config["pipeline_stage"], config["micro_batch_num"]) == (4, 16)
    assert config["use_seq_parallel"] is True
    assert found["parallel"]["enable_parallel_optimizer"] is True
    assert found["parallel"]["parallel_optimizer_config"]["gradient_accumulation_shard"] is False
    assert found["model"]["model_config"]["pp_interleave_num"] == 2
    assert found["recompute_config"] == {
        "recompute": True, "select_recompute": False,
        "mp_comm_recompute": True, "parallel_optimizer_comm_recompute": False,
    }  # fmt: skip
    uneven = OWN.model_copy(update={"layers": (4, 4, 5, 3, 4, 4, 4, 4), "recomputed_layers": 4})
    found = yaml.safe_load(mindformers.text(uneven))
    assert found["model"]["model_config"]["offset"] == [[0, 0, 1, -1], [0, 0, 0, 0]]
    assert found["recompute_config"]["recompute"] == [[4, 4, 4, 3], [4, 4, 4, 4]]


@pytest.mark.parametrize(
    ("launcher", "update", "said"),
    [
        ("megatron-core", {"schedule": "zb_h1", "stages_per_rank": 1}, "no schedule zb_h1"),
        ("torchtitan", {}, "no ZeRO-1"),
        ("torchtitan", {"schedule": "zb_h1"}, "no schedule zb_h1"),
        ("mindformers", {}, "cuts the parameters at rest"),
        ("mindformers", {"schedule": "zb_v", "layers": (4, 4, 5, 3, 4, 4, 4, 4)}, "offset"),
        ("mindformers", {"copies": 3}, "does not divide 16 microbatches"),
        (
            "megatron-core",
            {"microbatches": 6, "global_batch": 48},
            "refuses all but multiples of 4",
        ),
        (
            "megatron-core",
            {"degrees": TP.model_copy(update={"sequence_parallel": False})},
            "refuses experts with tensor parallelism",
        ),
        ("megatron-core", {"sequence": 4098}, "refuses all but multiples of 4"),
        ("megatron-core", {"zero_size": 3}, "do not divide dp·cp 8"),
        ("mindformers", {"microbatches": 2}, "fewer microbatches than stages"),
        ("mindformers", {"recompute": "selective"}, "does not recompute 'selective'"),
        ("torchtitan", {"recompute": "selective"}, "does not recompute 'selective'"),
        ("torchtitan", {"zero_size": 3}, "shards over 1 of dp times cp 2"),
        ("torchtitan", {"zero_size": 3, "degrees": Degrees(dp=4, zero=2)}, "do not divide dp 4"),
        ("torchtitan", {"degrees": Degrees(dp=4, cp=2)}, "its FSDP shards them over cp"),
        ("torchtitan", {"degrees": Degrees(dp=4, ep=4)}, "ep 4: it takes multiples of cp 1"),
        ("torchtitan", {"microbatches": 9}, "refuses all but multiples of 2"),
        (
            "torchtitan",
            {"microbatches": 2, "schedule": "1f1b", "stages_per_rank": 1},
            "refuses fewer than the 4 stages",
        ),
    ],
)
def test_what_is_lost_is_said(launcher: Target, update: dict[str, object], said: str) -> None:
    assert any(said in line for line in lost_of(OWN.model_copy(update=update), launcher))


@pytest.mark.parametrize(
    ("virtual", "layers", "said"),
    [
        (2, (4,) * 8, "--num-virtual-stages-per-pipeline-rank 2"),
        (1, (7, 8, 8, 8), "--decoder-first-pipeline-num-layers 7"),
        (1, (8, 8, 8, 7), "--decoder-last-pipeline-num-layers 7"),
        (1, (7, 9, 8, 8), '--pipeline-model-parallel-layout "Et*7|t*9|t*8|t*8L"'),
        (1, (8, 8, 8, 0), '--pipeline-model-parallel-layout "Et*8|t*8|t*8|L"'),
        (2, (1, 2, 1, 2, 1, 2, 1, 2), '-layout "Et|t*2|t|t*2|t|t*2|t|t*2L"'),
    ],
)
def test_megatron_is_given_the_layers_of_all_stages(
    virtual: int, layers: tuple[int, ...], said: str
) -> None:
    own = OWN.model_copy(update={"stages_per_rank": virtual, "layers": layers})
    text = megatron.text(own)
    assert said in text
    assert ("virtual" in text) == (virtual > 1 and len(set(layers)) == 1)
    assert not any("layers" in line for line in megatron.lost(own))


def test_a_padded_vocabulary_is_an_option_of_megatron_alone() -> None:
    own = OWN.model_copy(update={"padded_vocabulary": 50432})
    assert "--make-vocab-size-divisible-by 6304 \\\n" in megatron.text(own)
    for target in TARGETS:
        lost = [line for line in lost_of(own, target) if "vocabulary" in line]
        assert bool(lost) == (target != "megatron-core")


def test_deepspeed_reads_its_json() -> None:
    own = Uniform(
        degrees=Degrees(dp=16, zero=3), zero_size=16, microbatches=4, global_batch=128,
        dtype="bfloat16", recompute="full",
    )  # fmt: skip
    assert json.loads(deepspeed.text(own)) == {
        "train_batch_size": 128,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "overlap_comm": True},
    }
    assert not list(lost_of(own, "deepspeed"))
    assert any("gradient_checkpointing_enable" in said for said in deepspeed.remarks(own))
    for update in ({"degrees": Degrees(dp=8, tp=2, zero=3)}, {"zero_size": 8}):
        assert list(lost_of(own.model_copy(update=update), "deepspeed"))


def test_accelerate_reads_its_yaml() -> None:
    own = Uniform(
        degrees=Degrees(dp=16, tp=2, zero=3), zero_size=8, microbatches=4, global_batch=128,
        dtype="bfloat16", recompute="full",
    )  # fmt: skip
    found = yaml.safe_load(accelerate.text(own))
    assert found["num_processes"] == 32
    assert found["parallelism_config"] == {
        "parallelism_config_dp_replicate_size": 2,
        "parallelism_config_dp_shard_size": 8,
        "parallelism_config_tp_size": 2,
        "parallelism_config_cp_size": 1,
    }
    assert found["fsdp_config"]["fsdp_reshard_after_forward"] is True
    assert found["fsdp_config"]["fsdp_activation_checkpointing"] is True
    assert not list(lost_of(own, "accelerate"))
    assert any("gradient_accumulation_steps=4" in said for said in accelerate.remarks(own))
    for update in ({"degrees": Degrees(dp=16, tp=2, zero=1)}, {"pipeline_ranks": 2}):
        assert list(lost_of(own.model_copy(update=update), "accelerate"))


def test_torchtitan_is_given_the_layers_of_the_ends() -> None:
    """By default it takes a layer from both: 32 layers of 4 a stage would be 9 stages."""
    names = [f"pipeline_parallel_{end}_stage_less_layers" for end in ("first", "last")]
    for layers, less in (((4,) * 8, [0, 0]), ((3, *(4,) * 6, 2), [1, 2])):
        own = OWN.model_copy(update={"layers": layers})
        parallelism = torchtitan.sections(own)["parallelism"]
        assert parallelism["pipeline_parallel_layers_per_stage"] == 4
        assert [parallelism[name] for name in names] == less
        assert not any("layers" in said for said in torchtitan.lost(own))
    uneven = OWN.model_copy(update={"layers": (4, 5, 3, 4, 4, 4, 4, 4)})
    assert names[0] not in torchtitan.sections(uneven)["parallelism"]
    assert any("module_fqns" in said for said in torchtitan.lost(uneven))


def test_batches_that_do_not_divide_are_said_to_get_lost() -> None:
    own = request(layered(8, batch=16), "h100-1x4", 16, 2, tp=2)
    found = plan(own).plan
    assert found is not None
    for batch, said in ((16, 0), (20, 0), (18, 1)):  # in 2 microbatches over dp 2
        setup = own.setup.like(global_batch=batch)
        lost = launch_of(found, "megatron-core", graph=own.graph, setup=setup).lost
        assert len([one for one in lost if "equal parts of whole sequences" in one]) == said
    inference = Setup(phase="inference", global_batch=16)
    lost = launch_of(found, "megatron-core", graph=own.graph, setup=inference).lost
    assert "the plan is for inference; these options are for training" in lost


def test_uneven_parts_are_said_to_get_lost() -> None:
    graph = stored("llama3-8b")  # of 32 heads
    own = request(graph, "h100-1x3", 3, 1, dp=1, tp=3)
    uneven = own.model_copy(update={"setup": own.setup.like(uneven="chunk")})
    found = plan(uneven).plan
    assert found is not None
    for launcher in TARGETS:
        lost = launch_of(found, launcher, graph=graph, setup=uneven.setup).lost
        is_said = any("is cut unevenly over 3 devices" in said for said in lost)
        assert is_said == (
            launcher not in ("torchtitan", "fsdp2", "accelerate")
        )  # PyTorch cuts chunks


def test_ranks_in_another_order_than_the_launchers_differ() -> None:
    """Degrees alone place tp on neighbors; a pin puts it between the nodes."""
    graph = transformer_mlp(64, width=512).graph("loss:out", loss="loss:out")
    stated = plan(request(graph, "h100-2x4", 64, 1, dp=2, tp=4)).plan
    assert stated is not None
    names = {own.name for own in uniform_of(stated, graph).differing}
    assert "ranks" not in names
    stage = stated.stages[0]
    turned = stage.mesh.model_copy(update={"axes": stage.mesh.axes[::-1]})
    other = stated.model_copy(update={"stages": (stage.model_copy(update={"mesh": turned}),)})
    differing = {own.name: own.what for own in uniform_of(other, graph).differing}
    assert "launchers place tp on neighboring ranks" in differing["ranks"]


# --- the command ----------------------------------------------------------------------------------


def test_the_command_writes_each_of_them(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    degrees = ("--tp", "8", "--zero", "1", "--microbatches", "2")
    on = ("--topology", "h100-8x8", "--batch", "64")
    assert run("estimate", GRAPHS / "llama3-8b.json.gz", *on, *degrees, "-o", file).code == 0
    args = run("export", file, "--to", "megatron-core")
    assert args.code == 0, args.err
    assert "--tensor-model-parallel-size 8 \\\n" in args.out
    assert "dp 8, tp 8, zero 1, 1 pipeline rank(s) for megatron-core; lost: nothing" in args.err
    output = tmp_path / "titan.toml"
    assert run("export", file, "--to", "torchtitan", "-o", output).code == 2
    assert not output.exists()
    titan = run("export", file, "--to", "torchtitan", "--partial", "-o", output)
    assert titan.code == 0
    assert "lost in torchtitan: its tensor parallelism comes with sequence parallelism" in titan.err
    assert tomllib.loads(output.read_text())["parallelism"]["tensor_parallel_degree"] == 8
    config = yaml.safe_load(run("export", file, "--to", "mindformers", "--partial").out)
    assert config["parallel_config"]["model_parallel"] == 8


def test_the_command_fails_where_the_options_do_not_describe_the_plan(
    run: Run, tmp_path: Path
) -> None:
    """Eight layers in 2 · 3 stages, of which some have one layer and some two."""
    graph, file, output = tmp_path / "graph.json", tmp_path / "plan.json", tmp_path / "args"
    graph.write_text(layered(8, batch=16).to_json())
    stages = ("--pp", "2", "--vpp", "3", "--microbatches", "2")
    on = ("--topology", "h100-1x2", "--batch", "16")
    assert run("estimate", graph, *on, *stages, "-o", file).code == 0
    layout = run("export", file, "--to", "megatron-core").out
    assert "--pipeline-model-parallel-layout" in layout
    written = run("export", file, "--to", "mindformers").out
    model = yaml.safe_load(written)["model"]["model_config"]
    assert (model["pp_interleave_num"], sum(map(sum, model["offset"]))) == (3, 8 % 6)
    for target in ("torchtitan",):
        refused = run("export", file, "--to", target, "-o", output)
        assert refused.code == 2
        assert refused.out == ""
        assert not output.exists()
        assert f"lost in {target}: stages of " in refused.err
        assert refused.err.rstrip().endswith("Use --partial to write what fits")
        written = run("export", file, "--to", target, "--partial")
        assert written.code == 0
        assert f"lost in {target}: stages of " in written.err
        assert written.out
        assert "virtual-stages" not in written.out


def test_a_plan_with_caches_has_degrees_and_no_zero() -> None:
    """Caches lie like parameters and are none of the graph's tensors."""
    setup = Setup(phase="inference", global_batch=8, symbols={"seq": 1}, cache=Cache(context=2048))
    found = uniform(
        one_stage_request(graph=stored("llama3-8b"), topology=preset("h100-1x8"), setup=setup)
    )
    degrees = found.degrees
    assert (degrees.dp or 1) * degrees.tp * degrees.cp == 8
    assert degrees.zero == 0


@pytest.mark.parametrize(
    ("precision", "options"),
    [
        ("graph", []),
        (
            "fp8_tensorwise",
            ["--fp8-recipe tensorwise", "--fp8-format hybrid", "--fp8-param-gather"],
        ),
        ("fp8_blockwise", ["--fp8-recipe blockwise", "--fp8-format e4m3", "--fp8-param-gather"]),
        ("mxfp8", ["--fp8-recipe mxfp8", "--fp8-format e4m3", "--fp8-param-gather"]),
    ],
)
def test_megatron_is_given_the_recipe_of_products_in_eight_bits(
    precision: str, options: list[str]
) -> None:
    uniform = Uniform.model_validate(
        {"degrees": {"dp": 2}, "microbatches": 1, "precision": precision}
    )
    written = [line.rstrip(" \\") for line in megatron.text(uniform).splitlines()]
    assert [line for line in written if "fp8" in line] == options
    assert not any("8 bits" in lost for lost in megatron.lost(uniform))
    experts = uniform.model_copy(update={"degrees": Degrees(dp=2, ep=2)})
    said = any("tokens sent to experts in 8 bits" in lost for lost in megatron.lost(experts))
    assert said == (precision != "graph")


def test_torchtitan_converts_linear_layers_but_the_head() -> None:
    uniform = Uniform.model_validate(
        {"degrees": {"dp": 2}, "microbatches": 1, "precision": "fp8_tensorwise"}
    )
    read = tomllib.loads(torchtitan.text(uniform))
    assert read["model"]["converters"] == ["quantize.linear.float8"]
    options = read["quantize"]["linear"]["float8"]
    assert options["enable_fsdp_float8_all_gather"] is True
    assert options["filter_fqns"] == ["output"]
    blockwise = uniform.model_copy(update={"precision": "fp8_blockwise"})
    assert "model" not in tomllib.loads(torchtitan.text(blockwise))
    assert any("fp8_blockwise" in lost for lost in torchtitan.lost(blockwise))
    assert any("fp8_blockwise" in lost for lost in mindformers.lost(blockwise))


def test_megatron_is_given_the_dispatcher_of_one_copy_a_node() -> None:
    uniform = Uniform.model_validate(
        {"degrees": {"dp": 4, "ep": 4}, "microbatches": 1, "expert_dispatch": "node"}
    )
    assert ("--moe-token-dispatcher-type", "flex") in megatron.arguments(uniform)
    assert any("one copy of a token" in lost for lost in torchtitan.lost(uniform))
    assert any("one copy of a token" in lost for lost in mindformers.lost(uniform))
    alone = uniform.model_copy(update={"degrees": Degrees(dp=4)})
    assert not any("--moe" in name for name, _ in megatron.arguments(alone))
