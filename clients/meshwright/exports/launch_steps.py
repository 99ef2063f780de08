"""The steps that train with a plan: commands of frameworks, programs of the runtimes.

Commands have the names of each framework's own documentation: Megatron-LM (pretrain_gpt.py),
torchtitan 0.2 (run_train.sh), Accelerate 1.15, DeepSpeed 0.19 and MindFormers
(scripts/msrun_launcher.sh). `{server}` stands for the URL of the service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from meshwright.exports.exported import EveryTarget


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a training job: nodes, and processes of each node."""

    nodes: int
    per_node: int

    @property
    def torchrun(self) -> str:
        """The command that starts them; each node runs it."""
        if self.nodes == 1:
            return f"torchrun --nproc-per-node {self.per_node}"
        return (
            f"torchrun --nnodes {self.nodes} --nproc-per-node {self.per_node} "
            "--rdzv-backend c10d --rdzv-endpoint $MASTER_ADDR:29500"
        )

    @property
    def where(self) -> str:
        """The machines on which a command is run, for the end of a sentence."""
        if self.nodes == 1:
            return "on the node"
        return f"on each of the {self.nodes} nodes; MASTER_ADDR names the first one"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """The file of an export of a plan, and the processes that are to train with it."""

    plan: str
    file: str
    processes: Processes


@dataclass(frozen=True, slots=True)
class Command:
    """A step and its code."""

    text: str
    code: str
    is_python: bool = False


def steps_of_export(target: EveryTarget, own: ExportedFile) -> Iterator[Command]:
    """The steps after the file of an export has been written; none for layouts and graphs."""
    if target in _STEPS:
        yield from _STEPS[target](own)


def torch_program(plan: str, processes: Processes) -> Iterator[Command]:
    """The program of `meshwright.parallelize` with the engine `graph`, and its start."""
    yield Command(
        "Train the captured module under the plan (train.py). Any plan is carried out.",
        f"""\
import torch

import meshwright
from my_training import batches, model  # the captured module, and the batches of whole steps

with meshwright.parallelize(model, "{{server}}/v1/plans/{plan}") as trained:
    optimizer = torch.optim.AdamW(trained.parameters())
    for batch in batches:
        loss = trained.step(**trained.slice(batch))
        optimizer.step()
        optimizer.zero_grad()
""",
        is_python=True,
    )
    yield _start(processes, "train.py")


def jax_program(plan: str) -> Iterator[Command]:
    """The program of `meshwright.runtime.jax.parallelize`."""
    yield Command(
        "Train the captured function under the plan. Device r of jax.devices() is rank r.",
        f"""\
import jax

from meshwright.runtime.jax import parallelize
from my_training import batches, loss, params  # the captured function and its arguments

model = parallelize(loss, (params, *batches[0]), "{{server}}/v1/plans/{plan}")
values = model.place(params)
for batch in batches:
    mean, gradients = model.value_and_grad(values, model.batch(*batch))
    values = jax.tree.map(lambda value, gradient: value - 0.01 * gradient, values, gradients)
params = model.tree(values, like=params)
""",
        is_python=True,
    )


def _start(processes: Processes, program: str) -> Command:
    return Command(f"Start it {processes.where}.", f"{processes.torchrun} {program}\n")


def _megatron(own: ExportedFile) -> Iterator[Command]:
    yield Command(
        f"Add the arguments to those of the model, the tokenizer and the data, and start "
        f"{own.processes.where}.",
        f'eval "{own.processes.torchrun} pretrain_gpt.py $MODEL_AND_DATA_ARGS $(cat {own.file})"\n',
    )


def _torchtitan(own: ExportedFile) -> Iterator[Command]:
    yield Command(
        "Add the tables [model], [optimizer] and those of the data to the file, and start "
        f"{own.processes.where}.",
        f"{own.processes.torchrun} -m torchtitan.train --job.config_file {own.file}\n",
    )


def _fsdp2(own: ExportedFile) -> Iterator[Command]:
    yield Command(
        "The script reads plan.json. Name the plan at the service instead.",
        f'sed -i \'s|"plan.json"|"{{server}}/v1/plans/{own.plan}"|\' {own.file}\n',
    )
    yield Command(
        f"Provide my_training.py with the module and its batches, and start {own.processes.where}.",
        f"{own.processes.torchrun} {own.file}\n",
    )


def _accelerate(own: ExportedFile) -> Iterator[Command]:
    more = (
        f" --num_machines {own.processes.nodes} --machine_rank $NODE_RANK "
        "--main_process_ip $MASTER_ADDR --main_process_port 29500"
        if own.processes.nodes > 1
        else ""
    )
    yield Command(
        f"Start the training script {own.processes.where}.",
        f"accelerate launch --config_file {own.file}{more} train.py\n",
    )


def _deepspeed(own: ExportedFile) -> Iterator[Command]:
    where = (
        f"--num_gpus {own.processes.per_node}"
        if own.processes.nodes == 1
        else f"--hostfile hostfile --num_nodes {own.processes.nodes} "
        f"--num_gpus {own.processes.per_node}"
    )
    yield Command(
        "Start a training script that calls deepspeed.initialize, on the first node.",
        f"deepspeed {where} train.py --deepspeed --deepspeed_config {own.file}\n",
    )


def _mindformers(own: ExportedFile) -> Iterator[Command]:
    total = own.processes.nodes * own.processes.per_node
    more = (
        f" {own.processes.per_node} $MASTER_ADDR 8118 $NODE_RANK output/msrun_log False 300"
        if own.processes.nodes > 1
        else ""
    )
    yield Command(
        f"Merge the sections into the YAML of the model, and start {own.processes.where}.",
        f'bash scripts/msrun_launcher.sh "run_mindformer.py --config {own.file} --run_mode train" '
        f"{total}{more}\n",
    )


def _mindspore_network(own: ExportedFile) -> Iterator[Command]:
    yield Command(
        "Give the network its strategies before it is compiled.",
        f"""\
from meshwright.convert import MindSporeNetwork
from meshwright.runtime.mindspore import shard
from my_training import net  # the captured network

shard(net, MindSporeNetwork.model_validate_json(open("{own.file}").read()))
""",
        is_python=True,
    )


def _mindspore_strategies(own: ExportedFile) -> Iterator[Command]:
    yield Command(
        "Have MindSpore read the file in place of its search. network.json is the export "
        "mindspore-network, which has the context and the parameters that stay whole.",
        f"""\
from meshwright.convert import MindSporeNetwork
from meshwright.runtime.mindspore import settle
from mindspore.parallel.auto_parallel import AutoParallel
from my_training import net  # the captured network

settle(net, MindSporeNetwork.model_validate_json(open("network.json").read()))
parallel = AutoParallel(net, "sharding_propagation")
parallel.load_operator_strategy_file("{own.file}")
""",
        is_python=True,
    )


_STEPS: Mapping[EveryTarget, Callable[[ExportedFile], Iterator[Command]]] = {
    "megatron-core": _megatron,
    "torchtitan": _torchtitan,
    "fsdp2": _fsdp2,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "mindformers": _mindformers,
    "mindspore-network": _mindspore_network,
    "mindspore-strategies": _mindspore_strategies,
}
