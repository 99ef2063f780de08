"""Step reports: the step time and peak memory over all ranks, sent by the first rank."""

from __future__ import annotations

import datetime
from importlib.metadata import version

import torch
import torch.distributed as dist

from meshwright.runtime.reporting import Reports, StepClock
from meshwright.schema.observation import Observation


class Observing:
    """The measurement of a plan's steps. Every rank measures, the first rank sends the reports."""

    def __init__(self, plan: str, device: torch.device, reports: Reports) -> None:
        self._plan = plan
        self._device = device
        self._reports = reports
        self._clock = StepClock()

    def begin_step(self) -> None:
        """Record the start of a step. All ranks must call it.

        After some steps, the ranks reduce the longest step time and the highest peak memory.
        """
        median = self._clock.begin()
        if median is None:
            return
        step_ns, steps = median
        most = torch.tensor(
            [step_ns, _peak_bytes(self._device)], dtype=torch.float64, device=self._device
        )
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        if dist.get_rank() == 0:
            slowest_ns, peak_bytes = most.tolist()
            self._reports.send(
                Observation(
                    plan=self._plan,
                    step_ns=slowest_ns,
                    steps=steps,
                    memory_bytes=int(peak_bytes) or None,
                    stack=f"meshwright {version('meshwright')}, torch {torch.__version__}, eager, "
                    f"{self._device.type}",
                    measured_at=datetime.datetime.now(datetime.timezone.utc).isoformat(),
                )
            )

    def close(self) -> None:
        """Send the last report."""
        self._reports.close()


def _peak_bytes(device: torch.device) -> int:
    """The peak memory allocated on the device, in bytes; 0 on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
