"""Saved activations against the formulas of Korthikanti et al. 2022, for its four models.

"Reducing Activation Recomputation in Large Transformer Models", equations 1 to 4 and section 4.3.
Bytes of one layer, with s the sequence, b the microbatch, h the width, a the heads, t the ways of
tensor parallelism. Numbers of whole rows (mean and deviation of norms) and the causal mask they
leave out, and so do we.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from examples.models.gpt_unfused import SIZES, Sizes, gpt
from meshwright.capture import capture_module
from meshwright.schedules.kinds import schedule
from meshwright.schema import Budget, Graph, Pin, Pipeline, Setup
from meshwright.schema.recompute import Recompute
from meshwright_solver.evaluation.accounting.assignment import Read
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.evaluate import cost_of_all
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from tests.capture.as_written import attention_as_written
from tests.solver.requests import problem_of, toy_request
from tests.solver.small_graphs import topology

LAYERS = 2
SETUP = Setup(microbatches=1)


@cache
def captured(name: str, layers: int = LAYERS) -> Graph:
    """The model with attention as written: the formulas are those of its products and softmax."""
    with torch.device("meta"):
        recipe = gpt(name, layers)
    with attention_as_written():
        return capture_module(
            recipe.module, recipe.inputs, symbols=recipe.symbols, name=recipe.name
        )


def pins(level: str, ops: dict[str, str]) -> tuple[Pin, ...]:
    return tuple(Pin(op=op, strategy={factor: (level,)}) for op, factor in ops.items())


ALONE = (Pin(op="*", strategy={}),)
TENSOR_PARALLEL = (
    *ALONE,
    *pins(
        "gpu",
        {
            **{f"*.attention.{name}": "n" for name in ("query", "key", "value")},
            **{f"*.attention.{name}": "b1" for name in ("matmul", "matmul_2")},
            **{
                f"*.attention.{name}": "d1"
                for name in ("div", "masked_fill", "softmax", "weights_dropout")
            },
            "*.attention.out": "k",
            "*.up": "n",
            "*.gelu": "d2",
            "*.down": "k",
            "words": "v",
            "linear": "n",
            "cast": "d2",
            "cross_entropy": "v",
        },
    ),
)
SEQUENCE_PARALLEL = (
    *TENSOR_PARALLEL,
    *pins(
        "gpu",
        {"*norm": "b1", "*_dropout": "d1", "dropout": "d1", "*add": "d1", "*add_2": "d1"}
        | {"*.weights_dropout": "d1"},
    ),
)


def kept_bytes(name: str, ways: int, how: tuple[Pin, ...], setup: Setup = SETUP) -> int:
    """What the judge says that all saved activations take of a device.

    Values that readers share are saved as they rest and gathered again, as the paper has it.
    """
    graph, devices = captured(name), topology(ways, memory_bytes=1 << 44)
    budget = Budget(max_axes=1)
    request = toy_request(graph=graph, topology=devices, setup=setup, pins=how, budget=budget)
    answer = plan(request)
    assert answer.plan is not None
    stage = answer.plan.stages[0]
    problem = problem_of(request)
    models = Models(problem, find_values(problem), stage.mesh)
    chosen = assignment_of_stage(models, stage)
    again = {root: Read(read.codes, True) for root, read in chosen.read.items()}
    return cost_of_all(models, replace(chosen, read=again)).memory_bytes.activations


def row_bytes(sizes: Sizes) -> int:
    """s b h: one byte for every element of the stream between layers."""
    return sizes.sequence * sizes.microbatch * sizes.hidden


def attention_share(sizes: Sizes) -> float:
    """5 a s / h: the weights of attention, twice in 2 bytes and their mask, over s b h."""
    return 5 * sizes.heads * sizes.sequence / sizes.hidden


def logits_share(sizes: Sizes) -> float:
    """4 v / h: the logits in float32."""
    return 4 * sizes.vocabulary / sizes.hidden


@pytest.mark.parametrize("execution", ["eager", "compiled"])
@pytest.mark.parametrize("name", SIZES)
def test_a_layer_on_one_device_keeps_34_bytes_and_its_attention(name, execution):
    # what products read cannot be made again inside their kernels: a stack of either kind keeps it
    sizes = SIZES[name]
    layer = 34 + attention_share(sizes)
    # section 4.3: the dropout behind the embedding; the last norm, the head and the logits
    ends = 1 + 4 + logits_share(sizes)
    expected = row_bytes(sizes) * (LAYERS * layer + ends)
    setup = SETUP.model_copy(update={"execution": execution})
    assert kept_bytes(name, 1, ALONE, setup) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", SIZES)
def test_tensor_parallelism_leaves_10_bytes_whole(name):
    sizes, t = SIZES[name], SIZES[name].tensor_parallel
    layer = 10 + 24 / t + attention_share(sizes) / t
    ends = 1 + 4 + logits_share(sizes) / t
    expected = row_bytes(sizes) * (LAYERS * layer + ends)
    assert kept_bytes(name, t, TENSOR_PARALLEL) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", SIZES)
def test_sequence_parallelism_divides_everything(name):
    sizes, t = SIZES[name], SIZES[name].tensor_parallel
    layer = (34 + attention_share(sizes)) / t
    ends = (1 + 4 + logits_share(sizes)) / t
    expected = row_bytes(sizes) * (LAYERS * layer + ends)
    assert kept_bytes(name, t, SEQUENCE_PARALLEL) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("policy", "layer"), [("selective", 34), ("full", 2)])
def test_recompute_leaves_what_the_paper_says(name, policy, layer):
    # equation 6 and table 2: without the scores of attention, and the input of a layer alone
    sizes, layers = SIZES[name], 4  # enough for repeats to be found
    answer = plan(
        toy_request(
            graph=captured(name, layers),
            topology=topology(1, memory_bytes=1 << 44),
            setup=SETUP,
            budget=Budget(max_axes=1),
            recompute=Recompute(policy=policy),
        )
    )
    assert answer.plan is not None
    expected = row_bytes(sizes) * (layers * layer + 1 + 4 + logits_share(sizes))
    assert answer.plan.cost.memory_bytes.activations == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "per_rank", "masks"), [("1f1b", 1, 4), ("interleaved_1f1b", 2, 8)]
)
def test_the_first_pipeline_rank_holds_all_layers_and_more_interleaved(kind, per_rank, masks):
    # sections 4.2 and 4.3: p microbatches of L / p layers, (1 + (p - 1) / (p m)) times as many with
    # m stages a rank. masks: of the dropout behind the embedding; the paper says p of them, which
    # is less than the first of several stages holds: its own 8 microbatches here
    name, ranks, layers, microbatches = "175B", 4, 8, 8
    sizes = replace(SIZES[name], microbatch=1)
    every = layers // (ranks * per_rank)
    answer = plan(
        toy_request(
            graph=captured(name, layers),
            topology=topology(ranks, memory_bytes=1 << 44),
            setup=Setup(global_batch=microbatches, microbatches=microbatches),
            pipeline=Pipeline(
                ranks=ranks,
                schedule=kind,
                stages_per_rank=per_rank,
                cuts=tuple(f"layers.{first}.norm" for first in range(every, layers, every)),
            ),
            budget=Budget(max_axes=1),
        )
    )
    assert answer.plan is not None
    of_microbatch = [
        stage.memory_bytes.activations / stage.in_flight
        for stage in answer.plan.stages
        if stage.memory_bytes is not None
    ]
    order = schedule(kind, ranks, microbatches, per_rank)
    found = order.most_held(0, np.array(of_microbatch), np.zeros(order.stages))
    more = 1 + (ranks - 1) / (ranks * per_rank) if per_rank > 1 else 1
    layer = 34 + attention_share(sizes)
    assert found == pytest.approx(row_bytes(sizes) * (layers * more * layer + masks), rel=1e-12)
