"""Jobs: what a rank of a training job holds, whichever engine carries out its plan."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import torch
import torch.distributed as dist
from typing_extensions import Self

from meshwright.runtime.torch.heartbeat import Pulse
from meshwright.runtime.torch.step_reporting import Observing


class Job:
    """The heartbeat, the reports and the process groups of a rank; closed as a context manager."""

    def __init__(
        self,
        device: torch.device,
        *,
        close: Callable[[], None],
        pulse: Pulse,
        observing: Observing | None,
    ) -> None:
        self._device = device
        self._close = close
        self._pulse = pulse
        self._observing = observing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._pulse.fail(error)
        self.close()

    def close(self) -> None:
        """Destroy the process groups that were created for this job."""
        if self._observing is not None:
            self._observing.close()
        self._close()

    def _seed_of_first_rank(self) -> int:
        """The seed of the first rank's random numbers, below 2**63."""
        seed = torch.initial_seed() % 2**63
        value = torch.tensor(seed, dtype=torch.int64, device=self._device)
        dist.broadcast(value, src=0)
        return int(value)
