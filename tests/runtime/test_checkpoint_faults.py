"""Checkpoints that are damaged, of something else, or cut short while they are written."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import save_file

import meshwright
from meshwright.runtime.torch import Trained
from meshwright.runtime.torch.checkpoint import saving
from meshwright.schema import CheckpointError, InvalidInput
from tests.runtime.models import Llama
from tests.runtime.test_refusals import planned

KILLED = 9


@pytest.fixture(scope="module", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A world of this process."""
    join(tmp_path_factory.mktemp("alone"))
    yield
    dist.destroy_process_group()


def join(folder: Path) -> None:
    store = dist.FileStore(str(folder / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("plan") / "plan.json", 1)


def job(plan: Path, seed: int) -> tuple[Trained, torch.optim.Optimizer]:
    """With values that the seed decides, and an optimizer that has stepped."""
    torch.manual_seed(seed)
    trained = meshwright.parallelize(Llama(), plan)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.5, momentum=0.9)
    for own in trained.parameters():
        own.grad = torch.zeros_like(own)
    optimizer.step()
    return trained, optimizer


@pytest.fixture
def trained(plan: Path) -> tuple[Trained, torch.optim.Optimizer]:
    return job(plan, 0)


def values(trained: Trained) -> dict[str, torch.Tensor]:
    return {name: trained.whole(name).clone() for name, _ in trained.named_parameters()}


def dies_while_it_writes(_: object, file: Path) -> None:
    file.write_bytes(b"half a file")
    os._exit(KILLED)


def dies_before_it_is_a_checkpoint(*_: object) -> None:
    os._exit(KILLED)


def saves_twice(plan: Path, folder: Path, name: str, death: object) -> None:
    """The second time the process dies inside what is called `name`."""
    torch.set_num_threads(1)
    join(folder)
    trained, optimizer = job(plan, 1)
    trained.save(folder / "kept", optimizer)
    with torch.no_grad():
        for own in trained.parameters():
            own.add_(1.0)
    setattr(saving, name, death)
    trained.save(folder / "kept", optimizer)


@pytest.mark.parametrize(
    ("name", "death"),
    [("save_file", dies_while_it_writes), ("write_whole", dies_before_it_is_a_checkpoint)],
)
def test_a_process_that_dies_while_it_saves_leaves_the_last_checkpoint(
    plan: Path, tmp_path: Path, name: str, death: object
) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=saves_twice, args=(plan, tmp_path, name, death))
    process.start()
    process.join(120)
    assert process.exitcode == KILLED
    kept = tmp_path / "kept"
    assert len(list(kept.glob("rank-*"))) == 2
    wanted, _ = job(plan, 1)
    found, optimizer = job(plan, 2)
    found.load(kept, optimizer, check="digests")
    assert all(torch.equal(values(found)[key], own) for key, own in values(wanted).items())
    found.save(kept, optimizer)
    assert len(list(kept.glob("rank-*"))) == 1  # what was left over is gone


def test_files_that_are_cut_short_missing_or_changed_are_named(
    trained: tuple[Trained, torch.optim.Optimizer], tmp_path: Path
) -> None:
    job, optimizer = trained
    job.save(tmp_path, optimizer)
    (file,) = tmp_path.glob("rank-*")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    job.load(tmp_path)  # sizes are as they were
    with pytest.raises(CheckpointError, match=r"rank-00000.* is damaged: its digest is not"):
        job.load(tmp_path, check="digests")
    file.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match=r"has [\d,]+ bytes, [\d,]+ were written"):
        job.load(tmp_path)
    file.unlink()
    with pytest.raises(CheckpointError, match="is missing: No such file"):
        job.load(tmp_path)
    (tmp_path / "checkpoint.json").write_text("{}")
    with pytest.raises(CheckpointError, match="/plan: Field required"):
        job.load(tmp_path)


def test_whole_tensors_are_found_by_their_names(
    trained: tuple[Trained, torch.optim.Optimizer], tmp_path: Path
) -> None:
    job, optimizer = trained
    wanted = values(job)
    other = {name: own + 1 for name, own in wanted.items()}
    file = tmp_path / "some.safetensors"
    save_file({f"model.{name}": own for name, own in other.items()}, file)
    with pytest.raises(CheckpointError, match=r"no tensor 'table.weight' .* names={parameter"):
        job.load(file)
    job.load(file, names={name: f"model.{name}" for name in wanted})
    assert all(torch.equal(values(job)[name], own) for name, own in other.items())
    with pytest.raises(CheckpointError, match="holds no optimizer's states; load it without one"):
        job.load(file, optimizer)
    with pytest.raises(CheckpointError, match="come without digests"):
        job.load(file, check="digests")
    save_file({**wanted, "head.weight": torch.zeros(8, 32)}, file)
    with pytest.raises(CheckpointError, match=r"'head.weight' has the shape \[8, 32\] .*\[64, 32"):
        job.load(file)
    file.write_bytes(b"not one")
    with pytest.raises(CheckpointError, match="not a valid safetensors file"):
        job.load(file)
    with pytest.raises(CheckpointError, match=r"holds neither checkpoint\.json"):
        job.load(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weights": {}}))
    with pytest.raises(CheckpointError, match="no weight_map"):
        job.load(tmp_path)


def test_what_is_not_kept_is_refused_before_anything_is_written(
    trained: tuple[Trained, torch.optim.Optimizer], tmp_path: Path
) -> None:
    job, _ = trained
    for form in ("safetensors", "distributed"):
        with pytest.raises(InvalidInput, match="must be JSON"):
            job.save(tmp_path, extra={"step": object()}, form=form)
    foreign = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=1.0)
    with pytest.raises(CheckpointError, match=r"shape \[3\] that is not the job's"):
        job.save(tmp_path, foreign)
    factored = torch.optim.Adafactor(job.parameters())
    for own in job.parameters():
        own.grad = torch.ones_like(own)
    factored.step()
    with pytest.raises(CheckpointError, match=r"state 'row_var' of 'table.weight' has the shape"):
        job.save(tmp_path, factored)
    assert not list(tmp_path.iterdir())


def test_groups_of_an_optimizer_must_be_those_that_were_saved(
    trained: tuple[Trained, torch.optim.Optimizer], tmp_path: Path
) -> None:
    job, _ = trained
    first, *rest = job.parameters()
    groups = [{"params": [first], "lr": 0.1}, {"params": rest, "lr": 0.2, "betas": (0.8, 0.9)}]
    job.save(tmp_path, torch.optim.AdamW(groups))
    again = torch.optim.AdamW([{"params": rest}, {"params": [first]}])
    job.load(tmp_path, again)
    assert [group["lr"] for group in again.param_groups] == [0.2, 0.1]
    assert again.param_groups[0]["betas"] == (0.8, 0.9)
    with pytest.raises(CheckpointError, match="which were in 2 groups when the checkpoint"):
        job.load(tmp_path, torch.optim.AdamW(job.parameters()))


def test_a_checkpoint_of_pytorch_keeps_its_folder(
    trained: tuple[Trained, torch.optim.Optimizer], tmp_path: Path
) -> None:
    job, optimizer = trained
    job.save(tmp_path / "1", form="distributed")
    with pytest.raises(CheckpointError, match="give every checkpoint a folder of its own"):
        job.save(tmp_path / "1", form="distributed")
    with pytest.raises(CheckpointError, match="holds no optimizer's states"):
        job.load(tmp_path / "1", optimizer)
    with pytest.raises(CheckpointError, match="have no digests"):
        job.load(tmp_path / "1", check="digests")


def test_programs_of_pytorch_read_it(
    trained: tuple[Trained, torch.optim.Optimizer], tmp_path: Path
) -> None:
    job, optimizer = trained
    job.save(tmp_path, optimizer, form="distributed")
    own = Llama()
    found = {"model": own.state_dict()}
    torch.distributed.checkpoint.load(found, checkpoint_id=tmp_path)
    wanted = values(job)
    assert all(torch.equal(found["model"][name], wanted[name]) for name in wanted)
