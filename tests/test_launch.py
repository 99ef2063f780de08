"""The launch examples: parsed, and run on this machine by stand-ins of their launchers."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ports import unused_port
from tests.service.conftest import server

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "launch"
SBATCH = FOLDER / "slurm.sbatch"
SKY: dict[str, Any] = yaml.safe_load((FOLDER / "sky.yaml").read_text("utf-8"))
JOB: dict[str, Any] = yaml.safe_load((FOLDER / "trainjob.yaml").read_text("utf-8"))
# starts the command once for each node, at the same time, as srun does with one task for each node
SRUN = """#!/bin/sh
pids=
for node in $(seq 0 $((SLURM_JOB_NUM_NODES - 1))); do
    SLURM_NODEID=$node SLURM_PROCID=$node "$@" &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid" || exit 1; done
"""
SCONTROL = """#!/bin/sh
[ "$1 $2" = "show hostnames" ] || exit 2
echo "$3" | tr , '\\n'
"""
RAY_WORKER = """
import os
import torch.distributed as dist
from examples.launch.ray_train import train_loop
dist.init_process_group("gloo")
names = "MESHWRIGHT_SERVER", "MESHWRIGHT_TOPOLOGY"
train_loop({"environment": {name: os.environ[name] for name in names}, "steps": 20})
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a service that plans."""
    with server(tmp_path_factory.mktemp("plans"), planner="default") as (url, _):
        yield url


def environment(service: str, **more: str) -> dict[str, str]:
    """The variables of a job's processes."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own, "MESHWRIGHT_SERVER": service, **more}


def check_training(words: list[str], variables: dict[str, str], *, ranks: int) -> None:
    """Run a job to its end, and check that it trained under a plan of the service."""
    done = subprocess.run(
        words, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"^plan plan_[0-9a-f]{64}$", done.stdout, re.MULTILINE), done.stdout
    (found,) = re.findall(r"^loss ([0-9.]+) to ([0-9.]+) in 20 steps$", done.stdout, re.MULTILINE)
    assert float(found[1]) < float(found[0])
    assert done.stdout.count("plan plan_") == 1, f"{ranks} ranks, of which the first one prints"


def test_scripts_parse() -> None:
    subprocess.run(["bash", "-n", SBATCH], check=True, timeout=60)
    for part in ("setup", "run"):
        subprocess.run(["bash", "-n", "-c", SKY[part]], check=True, timeout=60)


def test_a_slurm_job_trains_on_two_nodes(service: str, tmp_path: Path) -> None:
    for name, text in {"srun": SRUN, "scontrol": SCONTROL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    variables = environment(
        service, SLURM_JOB_NUM_NODES="2", SLURM_GPUS_ON_NODE="1", SLURM_JOB_ID="7",
        SLURM_JOB_NODELIST="127.0.0.1,127.0.0.2", RENDEZVOUS_PORT=str(unused_port()),
    )  # fmt: skip
    variables["PATH"] = f"{tmp_path}{os.pathsep}{variables['PATH']}"
    check_training(["bash", str(SBATCH)], variables, ranks=2)


def test_a_slurm_job_without_a_service_says_what_is_missing() -> None:
    bare = {"PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", SBATCH], env=bare, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "MESHWRIGHT_SERVER: name the service" in done.stderr


def test_slurm_requests_what_the_topology_has() -> None:
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", SBATCH.read_text(), re.MULTILINE))
    assert options["ntasks-per-node"] == "1"  # torchrun starts the processes of a node
    assert int(options["nodes"]) > 1
    assert int(options["gpus-per-node"]) > 1


@pytest.mark.rotating
@pytest.mark.parametrize("launcher", ["kubeflow", "skypilot", "ray"])
def test_other_launchers_start_the_same_training(
    launcher: str, service: str, tmp_path: Path
) -> None:
    port = str(unused_port())
    variables = environment(service, MESHWRIGHT_TOPOLOGY="h100-1x2")
    words = shlex.split(f"torchrun --standalone --nproc-per-node 2 {tmp_path / 'worker.py'}")
    if launcher == "kubeflow":  # the variables that its PyTorch runtime sets
        words = JOB["spec"]["trainer"]["command"]
        variables |= {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "0"}
        variables |= {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": port}
    elif launcher == "skypilot":
        words = ["bash", "-c", SKY["run"]]
        variables |= {"SKYPILOT_NUM_NODES": "1", "SKYPILOT_NUM_GPUS_PER_NODE": "2"}
        variables |= {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "127.0.0.1"}
        variables |= {"RENDEZVOUS_PORT": port}
    else:  # a process group that is there before the plan
        (tmp_path / "worker.py").write_text(RAY_WORKER)
    check_training(words, variables, ranks=2)


def test_a_train_job_has_the_fields_of_kubeflow_trainer() -> None:
    assert JOB["apiVersion"] == "trainer.kubeflow.org/v1alpha1"
    assert JOB["kind"] == "TrainJob"
    trainer = JOB["spec"]["trainer"]
    assert set(trainer) <= {
        "args", "command", "env", "image", "numNodes", "numProcPerNode", "resourcesPerNode",
    }  # fmt: skip
    values = {entry["name"]: entry.get("value") for entry in trainer["env"]}
    devices = trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"]
    assert trainer["numProcPerNode"] == devices
    assert values["MESHWRIGHT_TOPOLOGY"] == f"h100-{trainer['numNodes']}x{devices}"
    assert values["MESHWRIGHT_API_KEY"] is None  # of a secret


def test_a_sky_task_has_the_fields_of_skypilot() -> None:
    assert set(SKY) <= {
        "envs", "file_mounts", "name", "num_nodes", "resources", "run", "secrets", "setup",
        "workdir",
    }  # fmt: skip
    assert SKY["secrets"] == {"MESHWRIGHT_API_KEY": None}
    assert set(re.findall(r"SKYPILOT_\w+", SKY["run"])) == {
        "SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_GPUS_PER_NODE",
        "SKYPILOT_NUM_NODES",
    }  # fmt: skip
