"""Jobs whose start goes wrong, with real processes: the others end, and say whose fault it is."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import meshwright
from meshwright.schema import InvalidInput, MeshwrightError
from tests.ports import unused_port
from tests.runtime.models import Llama
from tests.runtime.test_refusals import planned

RANKS = 3
TIMEOUT_S = 10.0
# chosen: processes of a busy machine end long before, and a test that hangs ends
PATIENCE_S = 120.0

Start = Callable[[int, Path], None]


def never_comes(rank: int, plan: Path) -> None:
    """Rank 2 ends before it joins."""
    if rank == 2:
        os._exit(1)
    meshwright.parallelize(Llama(), plan, timeout_s=TIMEOUT_S, check_module="none")


def holds_the_store_and_never_comes(rank: int, plan: Path) -> None:
    """Rank 0 ends before it joins."""
    if rank == 0:
        os._exit(1)
    meshwright.parallelize(Llama(), plan, timeout_s=TIMEOUT_S, check_module="none")


def dies_in_a_group(rank: int, plan: Path) -> None:
    """Rank 1 is in the process group, and ends before it has read its plan."""
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    dist.barrier()
    if rank == 1:
        os._exit(1)
    meshwright.parallelize(Llama(), plan, timeout_s=TIMEOUT_S, check_module="none")


class DiesWhenCopied(torch.Tensor):
    """Ends the process when a parameter is about to be sent."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # torch's signature
        if func is torch.Tensor.clone:
            os._exit(1)
        return super().__torch_function__(func, types, args, kwargs)


def dies_between_collectives(rank: int, plan: Path, *, dying: int = 1) -> None:
    """A rank ends while parameters are sent."""
    module = Llama()
    if rank == dying:
        weight = module.norm.weight.data.as_subclass(DiesWhenCopied)
        module.norm.weight = torch.nn.Parameter(weight)
    meshwright.parallelize(module, plan, timeout_s=TIMEOUT_S, check_module="none")


def has_another_model(rank: int, plan: Path) -> None:
    """Rank 1 has a module without the last norm."""
    module = Llama()
    if rank == 1:
        del module.norm
    meshwright.parallelize(module, plan, timeout_s=PATIENCE_S)


def has_another_residual(rank: int, plan: Path) -> None:
    """Rank 1 has a module of the same parameters whose last norm is scaled."""
    module = Llama()
    if rank == 1:
        module.norm.register_forward_hook(lambda _module, _inputs, result: 5 * result)
    meshwright.parallelize(module, plan, timeout_s=PATIENCE_S)


def told(start: Start, rank: int, port: int, plan: Path) -> None:
    """Start a rank, and write what it ends with."""
    torch.set_num_threads(1)
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
    }  # fmt: skip
    try:
        start(rank, plan)
    except MeshwrightError as why:
        (plan.parent / f"{rank}.txt").write_text(f"{why.slug}: {why}")
    # a group whose member is gone is not left in order
    os._exit(0)


def ends(start: Start, plan: Path) -> dict[int, str]:
    """What each rank that said something ended with."""
    port = unused_port()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    started = [
        context.Process(target=told, args=(start, rank, port, plan)) for rank in range(RANKS)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(PATIENCE_S)
        assert process.exitcode is not None, "a rank hangs"
    said = {rank: plan.parent / f"{rank}.txt" for rank in range(RANKS)}
    return {rank: path.read_text() for rank, path in said.items() if path.exists()}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return planned(tmp_path / "plan.json", RANKS)


@pytest.mark.parametrize(
    ("start", "gone", "doing"),
    [
        (never_comes, 2, "joining"),
        (dies_in_a_group, 1, "reading the plan"),
        (dies_between_collectives, 1, "placing the parameters"),
    ],
)
def test_a_rank_that_dies_is_named_by_all_others(
    start: Start, gone: int, doing: str, plan: Path
) -> None:
    said = f"rank-lost: rank {gone} of 3 did not come within 10 s of the start, while {doing}"
    others = {rank for rank in range(RANKS) if rank != gone}
    found = ends(start, plan)
    assert found.keys() == others
    assert all(own.startswith(said) for own in found.values()), found


def test_the_rank_that_holds_the_store_is_named(plan: Path) -> None:
    found = ends(holds_the_store_and_never_comes, plan)
    assert found.keys() == {1, 2}
    assert all(
        "rank-lost: rank 0, which holds the store of the job, is not at" in own
        for own in found.values()
    )


def test_the_rank_that_holds_the_store_is_named_when_it_dies_later(plan: Path) -> None:
    found = ends(partial(dies_between_collectives, dying=0), plan)
    assert found.keys() == {1, 2}
    said = "rank-lost: rank 0, which holds the store of the job, is gone"
    assert all(own.startswith(said) for own in found.values()), found


def test_a_rank_with_another_model_ends_all_with_its_reason(plan: Path) -> None:
    found = ends(has_another_model, plan)
    assert found.keys() == {0, 1, 2}
    assert "has the parameter 'norm.weight' of shape [32], the module has none" in found[1]
    assert found[1].startswith("module-mismatch")
    for rank in (0, 2):
        assert found[rank].startswith("rank-lost: rank 1 failed while reading the plan: ")
        assert "has the parameter 'norm.weight'" in found[rank]


def test_a_rank_whose_module_computes_something_else_ends_all_with_its_reason(plan: Path) -> None:
    found = ends(has_another_residual, plan)
    assert found.keys() == {0, 1, 2}
    assert found[1].startswith("module-mismatch: the module is not that of the plan: op 'head'")
    for rank in (0, 2):
        assert found[rank].startswith("rank-lost: rank 1 failed while checking the module: ")


def test_without_a_launcher_what_is_missing_is_named(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(InvalidInput, match=r"MASTER_ADDR is not set .* with torchrun"):
        meshwright.parallelize(Llama(), plan)
