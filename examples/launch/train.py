"""Train a small decoder under the plan that a service has for this job. Each launcher starts it.

MESHWRIGHT_SERVER      the URL of the service, with MESHWRIGHT_API_KEY or MESHWRIGHT_API_KEY_FILE
MESHWRIGHT_TOPOLOGY    the cluster, with as many devices as the job has ranks, such as h100-2x8
MESHWRIGHT_PLAN        a plan instead: its URL at a service, or a plan file

The first rank requests the plan and the others receive it. A service answers an equal request from
its store, so that a restarted job trains under the same plan.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

import meshwright
from examples.train_text import Decoder, batch_of
from meshwright.planfile import PlanFile

STEPS = 20


def plan_of_job(model: torch.nn.Module) -> PlanFile | str | Path:
    """The plan that the environment names, or the plan of the service for the topology."""
    named = os.environ.get("MESHWRIGHT_PLAN")
    if named:
        return named if "://" in named else Path(named)
    return meshwright.plan(
        model,
        batch_of(0),
        topology=os.environ["MESHWRIGHT_TOPOLOGY"],
        server=os.environ["MESHWRIGHT_SERVER"],
    )


def _device() -> torch.device:
    """The GPU of this rank, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def train(steps: int = STEPS) -> list[float]:
    """The losses of the steps, on every rank the same."""
    device = _device()
    torch.manual_seed(0)
    model = Decoder().to(device)
    plan = plan_of_job(model)
    losses = []
    with meshwright.parallelize(model, plan, engine="torch") as trained:
        optimizer = torch.optim.AdamW(trained.parameters(), lr=3e-3)
        for step in range(steps):
            batch = {name: own.to(device) for name, own in batch_of(step).items()}
            losses.append(float(trained.step(**trained.slice(batch))))
            optimizer.step()
            optimizer.zero_grad()
    if os.environ.get("RANK", "0") == "0":
        name = plan.plan.id if isinstance(plan, PlanFile) else plan
        print(f"plan {name}")
        print(f"loss {losses[0]:.3f} to {losses[-1]:.3f} in {steps} steps")
    return losses


if __name__ == "__main__":
    train()
