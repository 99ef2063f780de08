"""Compiles one network under one exported plan and says what MindSpore made of it.

    python -m tests.mindspore.compiled MODEL NETWORK_JSON shard|trained|LOAD=FILE|SAVE=FILE

`.shard()` in semi-automatic mode, of the forward pass or of a training step's gradients too; LOAD:
MindSpore reads all strategies from that file (search mode sharding_propagation); SAVE: it writes
those of `.shard()` in its own words. Prints `COMPILED` and, as JSON, strategies and collectives.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.mindspore.pretended import pretend_devices  # first: it says what MindSpore logs

# isort: split
from mindspore import ParameterTuple, nn, ops, set_auto_parallel_context
from mindspore.graph.api import _cell_graph_executor
from mindspore.parallel.checkpoint_transform import set_op_strategy_config
from mindspore.train.mind_ir_pb2 import ModelProto, TensorProto

from meshwright.convert.mindspore_network import MindSporeNetwork
from meshwright.runtime.mindspore import settle, shard
from tests.mindspore import networks

BYTES = {"FLOAT": 4, "FLOAT16": 2, "INT32": 4, "INT64": 8, "BOOL": 1}
COLLECTIVES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AlltoAll": "all_to_all",
    "AllToAll": "all_to_all",
}


class Gradients(nn.Cell):
    """What a training step asks of a network: its parameters' gradients."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.gradients = ops.GradOperation(get_by_list=True)
        self.parameters = ParameterTuple(network.trainable_params())

    def construct(self, *inputs):
        return self.gradients(self.network, self.parameters)(*inputs)


def main(model: str, plan_file: str, how: str) -> None:
    plan = MindSporeNetwork.model_validate_json(Path(plan_file).read_text())
    pretend_devices(len(plan.mesh.ranks))
    recipe = getattr(networks, model)()
    network = recipe.network(recipe.symbols)
    put = settle if how.startswith("LOAD=") else shard
    put(network, plan)
    action, _, file = how.partition("=")
    if file:
        set_auto_parallel_context(parallel_mode="auto_parallel", search_mode="sharding_propagation")
        set_op_strategy_config(mode=action, path=file)
    if how == "trained":
        network = Gradients(network)
    network.set_train()
    inputs = recipe.inputs(recipe.symbols)
    phase, _ = _cell_graph_executor.compile(network, *inputs, phase="train")
    strategies = _cell_graph_executor._get_shard_strategy(network)
    graph = ModelProto()
    graph.ParseFromString(_cell_graph_executor._get_func_graph_proto(network, phase, "mind_ir"))
    said = {"strategies": strategies, "collectives": list(collectives(graph, len(plan.mesh.ranks)))}
    sys.stdout.write("COMPILED " + json.dumps(said) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the registered name has nothing that could be torn down


def collectives(graph: ModelProto, devices: int) -> Iterator[tuple[str, int, int]]:
    """Kind, size of the group, and bytes of the whole tensor on one device, of each."""
    primitives = {own.name: own for own in graph.primitives}
    for node in graph.graph.node:
        own = primitives.get(node.op_type.removeprefix("REF::"))
        if own is None or own.op_type not in COLLECTIVES:
            continue
        (named,) = (a.s.decode() for a in own.attribute if a.name == "group")
        group = devices if named == "hccl_world_group" else int(named.split("-")[0])
        (made,) = (tensor for a in node.attribute if a.name == "shape" for tensor in a.tensors)
        width = BYTES[TensorProto.DataType.Name(made.data_type)]
        scattered = group if own.op_type == "ReduceScatter" else 1
        yield COLLECTIVES[own.op_type], group, math.prod(made.dims) * width * scattered


if __name__ == "__main__":
    main(*sys.argv[1:])
