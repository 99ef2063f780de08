"""Ray Train: ray job submit --working-dir . -- python -m examples.launch.ray_train

Ray starts a process for each device and makes the process group of torch.distributed, which
`meshwright.parallelize` takes over.
"""

from __future__ import annotations

import os
from typing import Any

from examples.launch.train import train

NODES, DEVICES = 2, 8


def train_loop(config: dict[str, Any]) -> None:
    """The work of one Ray worker. config: the variables of `examples.launch.train`."""
    os.environ.update(config["environment"])
    train(config["steps"])


def main() -> None:
    """Request the workers, and train."""
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    names = ("MESHWRIGHT_SERVER", "MESHWRIGHT_API_KEY")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment["MESHWRIGHT_TOPOLOGY"] = f"h100-{NODES}x{DEVICES}"
    TorchTrainer(
        train_loop,
        train_loop_config={"environment": environment, "steps": 20},
        scaling_config=ScalingConfig(num_workers=NODES * DEVICES, use_gpu=True),
    ).fit()


if __name__ == "__main__":
    main()
