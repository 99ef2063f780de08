"""What a step leaves behind on one rank: gradients as optimizers take them, and nothing else."""

from __future__ import annotations

import gc
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.distributed.tensor import DTensor

import meshwright
from bench.gpu.runtime import world_of_one
from meshwright.planfile import PlanFile
from meshwright.runtime.torch.forward import TorchForward
from meshwright.schema import Recompute, Request, Setup
from tests.runtime.models import MODELS
from tests.solver.requests import planned
from tests.solver.small_graphs import topology

ROWS, STEPS = 4, 3
CASES = {"gpt": "full", "mixtral": "none"}


@dataclass(frozen=True)
class Left:
    """passes: forward passes that are alive after the steps. strides: parameters with others than
    their gradients."""

    passes: int
    strides: tuple[str, ...]


def left_by(model_name: str, path: Path) -> Left:
    """Runs the steps in this process, which is the only rank."""
    model = MODELS[model_name]
    torch.manual_seed(0)
    batch = model.batch(ROWS)
    module = model.build()
    with world_of_one(), meshwright.parallelize(module, path) as trained:
        for _ in range(STEPS):
            trained.step(**trained.slice(batch))
        gc.collect()
        passes = sum(type(made) is TorchForward for made in gc.get_objects())
        other = [name for name, own in trained.named_parameters() if not _is_alike(own)]
    return Left(passes, tuple(other))


def _is_alike(parameter: torch.nn.Parameter) -> bool:
    pair = [parameter.detach(), parameter.grad]
    local = [each.to_local() if isinstance(each, DTensor) else each for each in pair]
    return local[1] is None or local[0].stride() == local[1].stride()


@pytest.mark.parametrize("model", CASES)
def test_a_step_frees_its_passes_and_gives_gradients_in_the_order_of_parameters(
    model: str, tmp_path: Path
) -> None:
    graph, cluster = MODELS[model].graph(ROWS // 2), topology(1)
    setup = Setup(global_batch=ROWS, microbatches=2, master_dtype=None)
    recompute = Recompute(policy=CASES[model])  # type: ignore[arg-type]  # a policy
    request = Request(graph=graph, topology=cluster, setup=setup, recompute=recompute)
    path = tmp_path / "plan.json"
    PlanFile(plan=planned(request), graph=graph, topology=cluster, setup=setup).write(path)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(left_by, model, path).result(timeout=300) == Left(0, ())
