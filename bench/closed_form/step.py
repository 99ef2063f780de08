"""Steps of runs in closed form: layers, pipeline, parameters' traffic, update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.closed_form.constants import Constants
from bench.closed_form.layer import Layer
from bench.closed_form.runs import FULL, PRODUCTS, SELECTIVE, Column, Runs
from bench.closed_form.traffic import Network

TERMS = (
    "matmul_traffic", "attention", "elementwise", "launch", "tensor_parallel", "expert_parallel",
    "routing", "context_parallel", "recompute", "bubble", "data_parallel", "sharded_parameters",
    "update", "step_overhead",
)  # fmt: skip

# chosen: a backward pass reads and writes one and a half times what its forward pass does
BACKWARD_TRAFFIC = 1.5
# chosen: how sharply the longer of launching and computing decides
SHARPNESS = 4.0
# chosen: of what the longest stage is longer than the mean, the share that every microbatch waits
LONGEST = 0.7


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds; arrays, one entry a run. forward, backward: a layer's passes over a microbatch.

    layers: of all microbatches, with the logits; total: what follows added up, and the overhead.
    """

    forward: Column
    backward: Column
    layers: Column
    bubble: Column
    sends: Column
    reduction: Column
    update: Column
    total: Column


def steps(runs: Runs, constants: Constants, without: frozenset[str] = frozenset()) -> Steps:
    """What a step takes; terms named in `without` (of TERMS) are left out."""
    layer = Layer(runs, constants, without)
    network = Network(runs, constants)
    forward, backward = _passes(layer, network)
    one = forward + backward + _exposed_gathers(layer, network, forward + backward)
    depth = np.ceil(runs.layers / runs.pp)
    head = layer.head()
    mean = (runs.layers * one + head) / runs.pp
    longest = np.where(runs.pp > 1, depth * one + head, mean)
    steady = runs.microbatches * (mean + LONGEST * (longest - mean))
    bubble = layer.kept("bubble", (runs.pp - 1) / runs.stages_per_rank * mean)
    sends = _sends(layer, network)
    reduction = _reduction(layer, network, backward)
    update = _update(layer)
    overhead = layer.kept("step_overhead", np.full(len(runs), constants["step_overhead"]))
    total = steady + bubble + sends + reduction + update + overhead
    return Steps(forward, backward, steady, bubble, sends, reduction, update, total)


def _passes(layer: Layer, network: Network) -> tuple[Column, Column]:
    """A layer's passes over a microbatch, what is made again counted with the backward pass."""
    runs, constants = layer.runs, layer.constants
    products, elementwise = layer.products(), layer.elementwise()
    core, core_back = layer.attention()
    moved = layer.tensor_parallel(network) + layer.expert_parallel(network) + layer.routing()
    context = layer.context_parallel(network)
    launch = constants.of_stack("launch", runs)
    launch = layer.kept(
        "launch", launch * (1 + constants["launch_tensor_parallel"] * (runs.tp - 1))
    )
    forward = _longer(products + core + elementwise + moved, launch) + context
    backward = 2 * products + core_back + BACKWARD_TRAFFIC * elementwise + moved
    backward = _longer(backward, launch) + 2 * context
    kinds = [runs.recompute == kind for kind in (FULL, SELECTIVE, PRODUCTS)]
    again = np.select(kinds, [forward, core, products / 2 + elementwise], 0.0)
    return forward, backward + layer.kept("recompute", again)


def _longer(seconds: Column, launch: Column) -> Column:
    return (seconds**SHARPNESS + launch**SHARPNESS) ** (1 / SHARPNESS)


def _exposed_gathers(layer: Layer, network: Network, computing: Column) -> Column:
    """What a layer waits for its parameters where ZeRO's third stage shards them.

    Gathered for both passes and its gradients scattered, in every microbatch.
    """
    runs, constants = layer.runs, layer.constants
    messages = np.where(runs.per_tensor > 0, constants["per_tensor_messages"], 1.0)
    own = (runs.layer_parameters + runs.expert_parameters / runs.ep) / runs.tp
    one = 3 * messages * network.gather(runs.sharded, runs.tp, runs.number_bytes * own / messages)
    exposed = np.where(runs.zero >= 3, _felt(layer, one, computing), 0.0)
    return layer.kept("sharded_parameters", exposed)


def _reduction(layer: Layer, network: Network, backward: Column) -> Column:
    """Gradients reduced beside a backward pass, and parameters gathered after their update."""
    runs, constants = layer.runs, layer.constants
    layers = runs.layers / runs.pp
    messages = np.maximum(1.0, constants.of_stack("messages", runs) * layers)
    ranks = runs.dp * runs.cp
    sharded = np.where(runs.zero >= 1, runs.sharding_group, 1.0)
    own = runs.device_parameters / messages
    reduced = messages * network.reduce(ranks, runs.tp, np.minimum(runs.gradient_bytes, 4.0) * own)
    reduced = reduced * np.where(sharded >= ranks, 0.5, 1.0)
    # in a pipeline gradients stay whole to the end of a step: there is no pass to hide them behind
    rounds = np.where((runs.zero == 2) & (runs.pp == 1), runs.microbatches, 1.0)
    gathered = messages * network.gather(sharded, runs.tp, runs.number_bytes * own)
    felt = rounds * _felt(layer, reduced, layers * backward)
    felt = felt + constants["gather_exposed"] * gathered
    return layer.kept("data_parallel", np.where(runs.zero >= 3, 0.0, felt))


def _felt(layer: Layer, moved: Column, computing: Column) -> Column:
    """What computation does not hide of a collective that runs beside it."""
    overlapped = layer.constants.of_stack("overlapped", layer.runs)
    beside = layer.constants["interference"] * np.minimum(overlapped, 1.0)
    return np.maximum(moved - overlapped * computing, beside * moved)


def _sends(layer: Layer, network: Network) -> Column:
    """Activations and gradients on their way through the pipeline's fill and drain."""
    runs = layer.runs
    far = runs.tp * runs.dp * runs.cp >= runs.per_node
    one = network.send(runs.number_bytes * runs.tokens * runs.hidden / runs.sequence_parts, far)
    return np.where(runs.pp > 1, 4 * (runs.pp - 1) * one, 0.0)


def _update(layer: Layer) -> Column:
    runs = layer.runs
    sharded = np.where(runs.zero >= 1, runs.sharding_group, 1.0)
    traffic = layer.constants["optimizer_traffic"] * runs.device_parameters / sharded
    return layer.kept("update", traffic / layer.memory_bytes_per_s)
