"""A rank that dies under the engine `torch`, and the precision of a module."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing as processes

import meshwright
from meshwright.capture import capture_module
from meshwright.launch_options.module_strategy import module_strategy
from meshwright.runtime.torch.fsdp2.apply import precision_of
from meshwright.schema import RankLost, microbatch_symbols
from tests.runtime.torch_engine.models import MODELS
from tests.runtime.torch_engine.worlds import ROWS, Case, planned

CASE = Case("own", "odd", {"dp": 2, "zero": 3})


def test_the_others_end_when_a_rank_dies(tmp_path: Path) -> None:
    planned(CASE, 2).write(tmp_path / "plan.json")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = processes.get_context("forkserver")
    ranks = [context.Process(target=_rank, args=(rank, store.port, tmp_path)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 7]
    assert "rank 1 of 2 has been silent" in (tmp_path / "said").read_text()


def _rank(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = MODELS[CASE.model]
    batch = model.batch(ROWS)
    try:
        module = model.build().double()
        plan = folder / "plan.json"
        with meshwright.parallelize(module, plan, engine="torch", silence_s=4) as trained:
            for step in range(1000):
                if rank == 1 and step == 3:
                    os._exit(7)
                trained.step(**trained.slice(batch))
    except RankLost as lost:
        (folder / "said").write_text(str(lost))


@pytest.mark.parametrize(
    ("planned_in", "trained_in", "computes_in", "reduces_in"),
    [
        ("bfloat16", torch.float32, torch.bfloat16, torch.float32),
        ("bfloat16", torch.bfloat16, None, torch.float32),
        ("float32", torch.float32, None, None),
        ("float64", torch.float32, None, None),
        ("bfloat16", torch.float64, None, None),
    ],
)
def test_a_module_of_a_wider_dtype_computes_in_that_of_the_plan(
    planned_in: str,
    trained_in: torch.dtype,
    computes_in: torch.dtype | None,
    reduces_in: torch.dtype | None,
) -> None:
    file = planned(CASE, 2)
    assert file.graph is not None
    assert file.setup is not None
    symbols = microbatch_symbols(file.graph, file.setup, file.plan.microbatches)
    strategy = module_strategy(file.plan.stages[0], file.graph, symbols)
    assert strategy.reduce_bytes == 8
    if planned_in != "float64":
        strategy = replace(strategy, reduce_bytes=4)
    model = MODELS[CASE.model]
    graph = capture_module(
        model.build(),
        lambda sizes: {name: own.to("meta") for name, own in model.inputs(sizes).items()},
        symbols={"batch": 4},
        name="odd",
        dtype=planned_in,  # type: ignore[arg-type]  # one of the parameters
    )
    policy = precision_of(model.build().to(trained_in), strategy, graph)
    assert (policy.param_dtype, policy.reduce_dtype) == (computes_in, reduces_in)
