"""The steps of launch guides, carried out: each program trains on all batches to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import jax

from meshwright.capture import JaxRecipe, capture_jax, capture_module
from meshwright.client import Client
from meshwright.schema import Budget, Graph
from meshwright.schema.pipeline import NO_PIPELINE

HERE = Path(__file__).resolve().parents[2]
STEPS = 2
BATCHES = f"""
from pathlib import Path


class Batches(list):
    \"\"\"Leaves a file once a loop over all of them has come to its end.\"\"\"

    def __iter__(self):
        yield from super().__iter__()
        Path("trained").touch()


def repeated(batch):
    return Batches([batch] * {STEPS})
"""
TORCH = f"""{BATCHES}
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.out(self.hidden(x).relu()), labels)


def inputs(sizes, device="meta"):
    x = torch.ones(sizes["batch"], 16, device=device)
    return {{"x": x, "labels": torch.zeros(sizes["batch"], dtype=torch.long, device=device)}}


torch.manual_seed(0)
model = Net()
batches = repeated(inputs({{"batch": 8}}, "cpu"))
"""
JAX = f"""{BATCHES}
import jax
import jax.numpy as jnp


def loss(params, x, labels):
    return ((jax.nn.relu(x @ params["up"]) @ params["down"] - labels) ** 2).mean()


params = {{"up": jnp.ones((16, 32)), "down": jnp.ones((32, 16)) / 32}}
batches = repeated((jnp.ones((8, 16)), jnp.zeros((8, 16))))
"""


def training(folder: Path, text: str) -> dict[str, Any]:
    """my_training.py in a folder, and what it defines."""
    (folder / "my_training.py").write_text(text)
    names: dict[str, Any] = {}
    exec(text, names)
    return names


def planned(url: str, graph: Graph, **options: Any) -> tuple[str, dict[str, Any]]:
    """The id of a plan on two devices, and the ways of its guide by name."""
    with Client(url) as client:
        budget = Budget(seconds=20, unrestricted="target" not in options)
        plan = client.plan(graph, "h100-1x2", budget=budget, **options).plan
    assert plan is not None
    guide = httpx.get(f"{url}/v1/plans/{plan.id}/launch").raise_for_status().json()
    return plan.id, {way["name"]: way for way in guide["ways"]}


def run(words: list[str], folder: Path, **environment: str) -> None:
    """A command in a folder, by the programs of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "PYTHONPATH": f"{folder}:{HERE}", **environment}
    ran = subprocess.run(
        words, cwd=folder, env=settings, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def carry_out(way: Mapping[str, Any], url: str, folder: Path, program: str = "train.py") -> None:
    """All steps of a way, in order."""
    for step in way["steps"]:
        code = step["code"].replace("{server}", url)
        if step["language"] == "python":
            (folder / program).write_text(code)
        else:
            run(["bash", "-c", code], folder)


def test_the_program_for_any_plan_trains(service: str, tmp_path: Path) -> None:
    names = training(tmp_path, TORCH)
    graph = capture_module(names["Net"](), names["inputs"], symbols={"batch": 8}, name="launched")
    _, ways = planned(service, graph)
    carry_out(ways["torch"], service, tmp_path)
    assert (tmp_path / "trained").exists()


def test_the_script_of_fsdp2_trains_as_it_is_fetched(service: str, tmp_path: Path) -> None:
    names = training(tmp_path, TORCH)
    graph = capture_module(names["Net"](), names["inputs"], symbols={"batch": 8}, name="fetched")
    plan, ways = planned(service, graph, target="fsdp2")
    way = ways["fsdp2"]
    fetch = ["meshwright", "export", plan, "--to", "fsdp2", "--server", service, "-o", way["file"]]
    run(fetch, tmp_path)
    found = httpx.get(f"{service}/v1/plans/{plan}/launch/fsdp2").json()
    assert (tmp_path / way["file"]).read_text() == found["text"]
    carry_out(way, service, tmp_path)
    assert (tmp_path / "trained").exists()


def test_the_program_of_jax_trains(service: str, tmp_path: Path) -> None:
    names = training(tmp_path, JAX)
    arguments = jax.eval_shape(lambda: (names["params"], *names["batches"][0]))
    recipe = JaxRecipe("launched-jax", names["loss"], lambda _: arguments, symbols={})
    graph = capture_jax(recipe)
    _, ways = planned(service, graph, pipeline=NO_PIPELINE)
    carry_out(ways["jax-program"], service, tmp_path)
    flags = "--xla_force_host_platform_device_count=2"
    run([sys.executable, "train.py"], tmp_path, XLA_FLAGS=flags)
    assert (tmp_path / "trained").exists()
