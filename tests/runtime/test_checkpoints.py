"""A checkpoint under one plan is taken up under others, on other numbers of processes too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from huggingface_hub import save_torch_state_dict

from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.runtime.reporting import FIRST_STEPS
from meshwright.runtime.torch.parallel_model import Form
from meshwright.schema import Pipeline
from meshwright.schema.checkpoint import Checkpoint
from meshwright.schema.observation import Observation
from tests.capture.rotation import rotating, values_of_session
from tests.runtime.checkpoint_world import (
    LEARNING_RATE,
    RANKS,
    SEED,
    STEPS,
    WHOLE,
    Move,
    Resumed,
    run,
    saved,
    started,
    train,
)
from tests.runtime.models import MODELS
from tests.runtime.planned import Wanted, asked

MIXED = {"dp": 2, "tp": 2}
ZERO_3 = {"dp": 4, "zero": 3}
# rounding, that steps of AdamW magnify
CLOSE = 1e-9
# keys and values of the second are segments of other lengths than the queries; two stages of a
# rank hold other parameters of the Llama, stages on other ranks the table of the second twice, and
# in a V one rank does
SAFE: Form = "safetensors"
MOVES: tuple[tuple[str, str, str, Form], ...] = (
    ("llama", "2x2", "4", SAFE),
    ("gpt with groups", "2x2", "4", SAFE),
    ("gpt with groups", "2x2", "4", "distributed"),
    ("llama", "stages", "4", SAFE),
    ("gpt with groups", "stages", "4", SAFE),
    ("gpt with groups", "stages", "4", "distributed"),
    ("gpt with groups", "stages in a V", "4", SAFE),
    ("gpt with groups", "stages in a V", "stages", "distributed"),
    ("llama", "4", "stages", SAFE),
    ("gpt with groups", "2x2", "stages in a V", "distributed"),
    ("gpt with groups", "1", "stages in a V", SAFE),
)
NAMES = [", ".join(move) for move in MOVES]
FIRST, *OTHERS = NAMES
CASES = [FIRST, *rotating(OTHERS, str)]
STAGES = (
    Wanted(
        "stages",
        "llama",
        {"tp": 2},
        pipeline=Pipeline(ranks=2, schedule="interleaved_1f1b", stages_per_rank=2),
    ),
    Wanted(
        "stages",
        "gpt with groups",
        {"dp": 2, "zero": 1},
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
    ),
    Wanted(
        "stages in a V",
        "gpt with groups",
        {"tp": 2},
        pipeline=Pipeline(ranks=2, schedule="zb_v", stages_per_rank=2),
    ),
)


@pytest.fixture(scope="module")
def plans(service: str) -> dict[tuple[str, str], str]:
    """Ids by model and kind."""
    wanted = [
        (own, sizes)
        for model in ("llama", "gpt with groups")
        for own, sizes in (
            (Wanted("2x2", model, {**MIXED, "sequence_parallel": True}), (2, 2)),
            (Wanted("4", model, ZERO_3), (2, 2)),
            (Wanted("1", model, {"dp": 1}), (1,)),
        )
    ]
    wanted += [(stages, (2, 2)) for stages in STAGES]
    return {(own.model, own.name): asked(own, sizes, service).plan.id for own, sizes in wanted}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A world of this process."""
    store = dist.FileStore(str(tmp_path_factory.mktemp("alone") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


Moved = tuple[dict[str, list[Resumed]], list[tuple[int, int]]]
Plans = dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def moved(request: pytest.FixtureRequest, plans: Plans, folder: Path, service: str) -> Moved:
    """Of the moves that this session tests."""
    moves = []
    names = {FIRST, *values_of_session(request, "name")}
    for name, (model, before, after, form) in zip(NAMES, MOVES, strict=True):
        if name not in names:
            continue
        move = Move(name, model, plans[model, before], plans[model, after], form)
        if before == "1":
            move = replace(move, wanted=tuple(saved(move, folder / name, service)))
        moves.append(move)
    torch.manual_seed(SEED)
    (folder / WHOLE).mkdir()
    state = MODELS[moves[0].model].build().double().state_dict()
    save_torch_state_dict(state, folder / WHOLE, max_shard_size="40KB")
    assert len(list((folder / WHOLE).glob("*.safetensors"))) > 2
    return run(moves, folder, service)


@pytest.mark.parametrize("name", CASES)
def test_four_ranks_go_on_under_another_plan_as_under_the_first(moved: Moved, name: str) -> None:
    for resumed in moved[0][name]:
        assert len(resumed.found) == STEPS
        assert resumed.found == pytest.approx(resumed.wanted, rel=CLOSE)
        assert resumed.rate == LEARNING_RATE


@pytest.mark.parametrize("name", CASES)
def test_one_process_goes_on_as_four_did(
    moved: Moved, plans: Plans, folder: Path, service: str, name: str
) -> None:
    model, *_ = name.split(", ")
    with started(MODELS[model], plans[model, "1"], service, 1.0) as (trained, optimizer):
        loaded = trained.load(folder / name, optimizer)
        first = loaded.extra["step"]
        found = train(MODELS[model], trained, optimizer, range(first, first + STEPS))
    assert found == pytest.approx(moved[0][name][0].wanted, rel=CLOSE)
    assert optimizer.param_groups[0]["lr"] == LEARNING_RATE


def test_a_rank_reads_its_share_and_no_byte_more(moved: Moved) -> None:
    for name, ranks in moved[0].items():
        for resumed in ranks:
            known = resumed.share_bytes if "safetensors" in name else None
            assert resumed.read_bytes == known
    assert all(read == share for read, share in moved[1])


@pytest.mark.usefixtures("moved")
def test_of_equal_replicas_one_writes(folder: Path, plans: Plans) -> None:
    manifest = read_document(folder / NAMES[0] / "checkpoint.json", Checkpoint)
    whole = sum(own.numel() for own in MODELS["llama"].build().parameters())
    keys = [key for file in manifest.files for key in file.tensors]
    numbers = sum(key.startswith("optimizer/step/") for key in keys)
    stored = sum(Path(folder / NAMES[0] / file.name).stat().st_size for file in manifest.files)
    headers = sum(
        8 + int.from_bytes((folder / NAMES[0] / file.name).read_bytes()[:8], "little")
        for file in manifest.files
    )
    assert stored - headers == 3 * 8 * whole + 4 * numbers
    assert {file.rank for file in manifest.files} == set(range(RANKS))
    assert (manifest.plan, manifest.world_size) == (plans["llama", "2x2"], RANKS)


@pytest.mark.usefixtures("moved")
def test_a_full_disk_is_said_on_all_ranks(folder: Path) -> None:
    said = [(folder / f"full-{rank}.txt").read_text() for rank in range(RANKS)]
    assert "cannot be written, the last checkpoint stays: " in said[1]
    assert "File too large" in said[1]
    for rank in (0, 2, 3):
        assert said[rank].startswith(f"rank 1 failed while saving to {folder}")
        assert "File too large" in said[rank]


@pytest.mark.usefixtures("moved")
def test_one_rank_reports_the_steps_of_all(plans: Plans, service: str) -> None:
    with Client(service) as client:
        (entry,) = client.observations(plans["llama", "4"])
    found = Observation.from_dict(entry["observation"])
    assert found.steps == FIRST_STEPS
    assert found.memory_bytes is None  # of a device that is the host
    assert found.stack.endswith("eager, cpu")
    assert 1e6 < found.step_ns < 60e9
