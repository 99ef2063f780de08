"""Launch guides: every target has its way, and shells and Python read the steps."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from meshwright.exports import EveryTarget, LaunchGuide, exported, launch_file, launch_guide
from meshwright.exports.formats import FORMATS, file_name
from meshwright.launch_options import megatron, uniform_of
from meshwright.reports.overview import overview_of
from meshwright.schema import Pipeline
from meshwright.schema.recompute import NO_RECOMPUTE
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.requests import toy_request


def guide_of(devices: str, **options: object) -> LaunchGuide:
    request = toy_request(graph=layered(4, batch=64), topology=preset(devices), **options)
    found = plan(request).plan
    assert found is not None
    topology = preset(devices)
    calibration = default_calibration()
    overview = overview_of(found, request.graph, topology, request.setup, calibration)
    return launch_guide(overview, topology)


def test_every_target_of_an_export_has_a_way() -> None:
    guide = guide_of("h100-2x2")
    exports = [way.export for way in guide.ways if way.export]
    assert sorted(exports) == sorted(set(get_args(EveryTarget)) - {"megatron"})
    assert len({way.name for way in guide.ways}) == len(guide.ways)
    for way in guide.ways:
        assert (way.file is None) == (way.export is None)
        if way.export is not None:
            assert str(way.file).endswith(f".{way.name}.{FORMATS[way.export].ending}")
        assert bool(way.steps) == (way.group in ("runtimes", "frameworks"))


@pytest.mark.parametrize(
    ("devices", "start"),
    [
        ("h100-1x4", "torchrun --nproc-per-node 4 train.py"),
        (
            "h100-2x4",
            "torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d "
            "--rdzv-endpoint $MASTER_ADDR:29500 train.py",
        ),
    ],
)
def test_one_process_is_started_for_each_device(devices: str, start: str) -> None:
    way = next(way for way in guide_of(devices).ways if way.name == "torch")
    assert way.steps[-1].code == f"{start}\n"


def test_jax_refuses_pipelines_by_name() -> None:
    pipeline = Pipeline(ranks=2, schedule="1f1b")
    guide = guide_of("h100-1x4", pipeline=pipeline, recompute=NO_RECOMPUTE)
    refused = {way.name: way.refused for way in guide.ways}
    assert refused["torch"] == ()
    assert refused["jax-program"] == ("the plan has 2 pipeline stages; the JAX runtime runs one",)


def test_the_steps_are_programs_and_commands() -> None:
    for way in guide_of("h100-2x4").ways:
        for step in way.steps:
            if step.language == "python":
                ast.parse(step.code.replace("{server}", "http://127.0.0.1:8780"))
            else:
                checked = subprocess.run(["bash", "-n", "-c", step.code], check=False)
                assert checked.returncode == 0, step.code
            assert "http" not in step.code


def test_megatron_gets_its_arguments_as_the_file_has_them(tmp_path: Path) -> None:
    request = toy_request(graph=layered(6, batch=64), topology=preset("h100-1x4"),
                          pipeline=Pipeline(ranks=2), recompute=NO_RECOMPUTE)  # fmt: skip
    found = plan(request).plan
    assert found is not None
    written = exported(found, "megatron-core", graph=request.graph, setup=request.setup)
    file = launch_file(written, "layered", text=True)
    assert file.text is not None
    (tmp_path / file.file).write_text(file.text)
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    guide = guide_of("h100-1x4", pipeline=Pipeline(ranks=2), recompute=NO_RECOMPUTE)
    way = next(way for way in guide.ways if way.name == "megatron-core")
    command = way.steps[-1].code.replace("layered.megatron-core.sh", file.file)
    (tmp_path / str(way.file)).write_text(file.text)
    start = (
        f"torchrun() {{ python3 -c {shlex.quote(program)} \"$@\"; }}; MODEL_AND_DATA_ARGS='--a 1'"
    )
    ran = subprocess.run(
        ["bash", "-c", f"{start}; {command}"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    given = json.loads(ran.stdout)
    assert given[:5] == ["--nproc-per-node", "4", "pretrain_gpt.py", "--a", "1"]
    uniform = uniform_of(found, request.graph, request.setup)
    wanted = [
        word for name, value in megatron.arguments(uniform) for word in (name, *shlex.split(value))
    ]
    assert given[5:] == wanted


@pytest.mark.parametrize("name", ["../../etc/passwd", "$(rm -rf /)", "-rf", "a b'c\"`", "", "名前"])
def test_file_names_are_plain(name: str) -> None:
    made = file_name(name, "torchtitan")
    assert shlex.quote(made) == made
    assert not made.startswith(("-", "."))
    assert "/" not in made


def test_a_file_that_loses_parts_has_no_text_unless_it_is_asked_for() -> None:
    request = toy_request(graph=layered(4, batch=64), topology=preset("h100-1x4"))
    found = plan(request).plan
    assert found is not None
    for target in FORMATS:
        if target == "mindspore-strategies":
            continue  # refused as a whole where a part of the plan is missing
        written = exported(found, target, graph=request.graph, setup=request.setup)
        file = launch_file(written, "layered", text=False)
        assert (file.text is None) == bool(file.losses) == bool(written.missing)
        assert launch_file(written, "layered", text=True).text == written.text
