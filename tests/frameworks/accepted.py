"""A child process in which a framework reads what was exported for it.

`python -m tests.frameworks.accepted TARGET` reads cases as a JSON list and writes what the
framework understood of each. The folder MESHWRIGHT_FRAMEWORKS has the frameworks' packages. They
import much that parsers do not need, so that the packages themselves are not run where that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
import yaml
from torch.testing._internal.distributed.fake_pg import FakeStore

FOLDER = Path(os.environ["MESHWRIGHT_FRAMEWORKS"])
_FLAGS = (
    "sequence-parallel", "use-distributed-optimizer", "use-megatron-fsdp", "bf16", "fp16",
    "no-gradient-accumulation-fusion", "fp8-param-gather", "moe-enable-deepep",
    "overlap-moe-expert-parallel-comm",
)  # fmt: skip
_TEXTS = (
    "data-parallel-sharding-strategy", "ckpt-format", "recompute-granularity", "recompute-method",
    "pipeline-model-parallel-layout", "fp8-recipe", "fp8-format", "moe-token-dispatcher-type",
)  # fmt: skip
_NUMBERS = (
    "tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size",
    "expert-model-parallel-size", "expert-tensor-parallel-size",
    "num-virtual-stages-per-pipeline-rank", "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers", "num-distributed-optimizer-instances", "micro-batch-size",
    "global-batch-size", "seq-length", "recompute-num-layers", "make-vocab-size-divisible-by",
)  # fmt: skip


def megatron(case: dict[str, Any]) -> dict[str, Any]:
    """TransformerConfig and the process groups of Megatron-Core."""
    import shlex

    from megatron.core import parallel_state
    from megatron.core.transformer import TransformerConfig

    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in _FLAGS:
        parser.add_argument(f"--{name}", action="store_true")
    for name in _TEXTS:
        parser.add_argument(f"--{name}")
    for name in _NUMBERS:
        parser.add_argument(f"--{name}", type=int)
    args = parser.parse_args(shlex.split(case["text"].replace("\\\n", " ")))
    virtual = args.num_virtual_stages_per_pipeline_rank
    config = TransformerConfig(
        num_layers=case["layers"],
        hidden_size=case["hidden"],
        num_attention_heads=case["heads"],
        num_query_groups=case["kv_heads"],
        num_moe_experts=case["experts"],
        add_bias_linear=False,
        tensor_model_parallel_size=args.tensor_model_parallel_size,
        pipeline_model_parallel_size=args.pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size=virtual,
        pipeline_model_parallel_layout=args.pipeline_model_parallel_layout,
        num_layers_in_first_pipeline_stage=args.decoder_first_pipeline_num_layers,
        num_layers_in_last_pipeline_stage=args.decoder_last_pipeline_num_layers,
        context_parallel_size=args.context_parallel_size,
        expert_model_parallel_size=args.expert_model_parallel_size,
        expert_tensor_parallel_size=args.expert_tensor_parallel_size,
        sequence_parallel=args.sequence_parallel,
        recompute_granularity=args.recompute_granularity,
        recompute_method=args.recompute_method,
        recompute_num_layers=args.recompute_num_layers,
        bf16=args.bf16,
        pipeline_dtype=__import__("torch").bfloat16,
        use_cpu_initialization=True,
    )
    stages = config.pipeline_model_parallel_layout
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["devices"])
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=args.tensor_model_parallel_size,
        pipeline_model_parallel_size=args.pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size=config.virtual_pipeline_model_parallel_size,
        context_parallel_size=args.context_parallel_size,
        expert_model_parallel_size=args.expert_model_parallel_size,
        expert_tensor_parallel_size=args.expert_tensor_parallel_size,
        num_distributed_optimizer_instances=args.num_distributed_optimizer_instances or 1,
        create_gloo_process_groups=False,
    )
    found = {
        "dp": parallel_state.get_data_parallel_world_size(),
        "tp": parallel_state.get_tensor_model_parallel_world_size(),
        "cp": parallel_state.get_context_parallel_world_size(),
        "pp": parallel_state.get_pipeline_model_parallel_world_size(),
        "ep": parallel_state.get_expert_model_parallel_world_size(),
        "layers": None if stages is None else [
            sum(layer.name == "decoder" for layer in stage)
            for turn in zip(*stages.layout, strict=True)
            for stage in turn
        ],
    }  # fmt: skip
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
    rounds, rest = divmod(args.global_batch_size, args.micro_batch_size * found["dp"])
    assert not rest
    return {**found, "microbatches": rounds}


def torchtitan(case: dict[str, Any]) -> dict[str, Any]:
    """ConfigManager and ParallelDims of torchtitan."""
    package = types.ModuleType("torchtitan")
    package.__path__ = [str(FOLDER / "torchtitan")]
    sys.modules.setdefault("torchtitan", package)
    from torchtitan.config import ConfigManager
    from torchtitan.distributed.parallel_dims import ParallelDims

    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(case["text"])
        file.flush()
        config = ConfigManager().parse_args([f"--job.config_file={file.name}"])
    own, training = config.parallelism, config.training
    ParallelDims(
        dp_replicate=own.data_parallel_replicate_degree,
        dp_shard=own.data_parallel_shard_degree,
        cp=own.context_parallel_degree,
        tp=own.tensor_parallel_degree,
        pp=own.pipeline_parallel_degree,
        ep=own.expert_parallel_degree,
        etp=own.expert_tensor_parallel_degree,
        world_size=case["devices"],
    )
    dp = own.data_parallel_replicate_degree * own.data_parallel_shard_degree
    rounds, rest = divmod(training.global_batch_size, training.local_batch_size * dp)
    assert not rest
    if own.pipeline_parallel_degree > 1:
        rounds *= training.local_batch_size // own.pipeline_parallel_microbatch_size
    return {
        "dp": dp,
        "tp": own.tensor_parallel_degree,
        "cp": own.context_parallel_degree,
        "pp": own.pipeline_parallel_degree,
        "ep": own.expert_parallel_degree,
        "microbatches": rounds,
    }


def accelerate(case: dict[str, Any]) -> dict[str, Any]:
    """The file of `accelerate launch`, and ParallelismConfig as the launched script makes it."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(case["text"])
        file.flush()
        config = load_config_from_file(file.name)
    own = {
        name.removeprefix("parallelism_config_"): value
        for name, value in config.parallelism_config.items()
    }
    parallel = ParallelismConfig(**own)
    assert parallel.total_size == config.num_processes == case["devices"]
    fsdp = config.fsdp_config
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=fsdp["fsdp_version"],
        reshard_after_forward=fsdp["fsdp_reshard_after_forward"],
        activation_checkpointing=fsdp["fsdp_activation_checkpointing"],
        auto_wrap_policy=fsdp["fsdp_auto_wrap_policy"],
        state_dict_type=fsdp["fsdp_state_dict_type"],
    )
    return {
        "dp": parallel.dp_replicate_size * parallel.dp_shard_size,
        "tp": parallel.tp_size,
        "cp": parallel.cp_size,
        "pp": 1,
        "ep": 1,
        "reshards": plugin.reshard_after_forward,
    }


def deepspeed(case: dict[str, Any]) -> dict[str, Any]:
    """DeepSpeedConfig, which computes and checks the batch sizes."""
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig

    comm.get_rank = lambda: 0  # of a job that is not running

    class Ranks:
        @staticmethod
        def get_data_parallel_world_size() -> int:
            return int(case["devices"])

    config = DeepSpeedConfig(json.loads(case["text"]), mpu=Ranks())
    return {
        "dp": case["devices"], "tp": 1, "cp": 1, "pp": 1, "ep": 1,
        "zero": int(config.zero_config.stage),
        "microbatches": config.gradient_accumulation_steps,
    }  # fmt: skip


def mindformers(case: dict[str, Any]) -> dict[str, Any]:
    """Read as YAML only: MindFormers needs MindSpore and no accelerator is here."""
    own = yaml.safe_load(case["text"])["parallel_config"]
    return {
        "dp": own["data_parallel"], "tp": own["model_parallel"], "cp": own["context_parallel"],
        "pp": own["pipeline_stage"], "ep": own["expert_parallel"],
    }  # fmt: skip


READERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "megatron-core": megatron,
    "torchtitan": torchtitan,
    "accelerate": accelerate,
    "deepspeed": deepspeed,
    "mindformers": mindformers,
}

if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER))
    found = [READERS[sys.argv[1]](case) for case in json.load(sys.stdin)]
    Path(sys.argv[2]).write_text(json.dumps(found))
