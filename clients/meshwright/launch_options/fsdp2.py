"""PyTorch's own parts: fully_shard, parallelize_module and activation checkpoints.

`meshwright.parallelize(..., engine="torch")` applies them to a module. The script reads the plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.launch_options.choices import LauncherChoices
from meshwright.launch_options.module_strategy import module_strategy
from meshwright.launch_options.pytorch import other_shards, shard_degree, uneven_shards
from meshwright.schema import Graph, Plan, Setup, microbatch_symbols
from meshwright.schema.uniform_degrees import Uniform

CHOICES = LauncherChoices(zero=(0, 2, 3), tensor=True, hybrid=True, shards_all=True)


def text(uniform: Uniform) -> str:
    """A training script."""
    degrees, shard = uniform.degrees, shard_degree(uniform)
    dp = degrees.dp or 1
    rows = "" if uniform.global_batch is None else f"{uniform.global_batch} rows of "
    return f'''"""Train a module under a plan: torchrun --nproc-per-node {dp * degrees.tp} train.py

The mesh is dp_replicate {dp // shard} x dp_shard {shard} x tp {degrees.tp}. fully_shard has
reshard_after_forward={degrees.zero == 3}, activation checkpoints: {uniform.recompute}. A step has
{uniform.microbatches} microbatch(es).
"""

import torch

import meshwright
from my_training import batches, model  # your module, and {rows}inputs and labels

with meshwright.parallelize(model, "plan.json", engine="torch") as trained:
    optimizer = torch.optim.AdamW(trained.parameters())
    for batch in batches:
        loss = trained.step(**trained.slice(batch))
        optimizer.step()
        optimizer.zero_grad()
'''


def lost(uniform: Uniform) -> Iterator[str]:
    """The parts of a uniform strategy that these parts do not carry out."""
    degrees = uniform.degrees
    yield from uneven_shards(uniform)
    if degrees.zero == 1:
        yield "ZeRO-1: its fully_shard shards gradients too (ZeRO-2)"
    else:
        yield from other_shards(uniform)
    if degrees.cp > 1:
        yield f"cp {degrees.cp}: this engine has no context parallelism"
    if degrees.ep > 1:
        yield f"ep {degrees.ep}: this engine has no expert parallelism"
    if uniform.pipeline_ranks > 1:
        yield f"{uniform.pipeline_ranks} pipeline ranks: this engine has no pipelines"
    if uniform.copies > 1:
        yield f"{uniform.copies} microbatches that take turns: it runs one after the other"
    if uniform.precision != "graph":
        yield f"{uniform.precision}: it computes in the dtypes of the module"


def lost_of_plan(plan: Plan, graph: Graph, setup: Setup | None) -> Iterator[str]:
    """The parts of a plan that the borders of modules do not state."""
    if len(plan.stages) == 1:
        symbols = microbatch_symbols(graph, setup or Setup(), plan.microbatches)
        yield from module_strategy(plan.stages[0], graph, symbols).unstated
