"""Step time and peak memory over all ranks, reported by the first one."""

from __future__ import annotations

import datetime
from importlib.metadata import version

import torch
import torch.distributed as dist

from meshwright.runtime.reporting import Reports, StepClock
from meshwright.schema.observation import Observation


class Observing:
    """Measures the steps of a plan. reports: where to; every rank measures, the first one sends."""

    def __init__(self, plan: str, device: torch.device, reports: Reports) -> None:
        self._plan = plan
        self._device = device
        self._reports = reports
        self._clock = StepClock()

    def begin_step(self) -> None:
        """Called by all ranks alike: now and then they agree on the slowest and the fullest."""
        found = self._clock.begin()
        if found is None:
            return
        step_ns, steps = found
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
        """The job ends."""
        self._reports.close()


def _peak_bytes(device: torch.device) -> int:
    """The most that was allocated on the device; 0 where it is the host, whose memory is all of the
    process's."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
