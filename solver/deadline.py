"""The end of a time budget: the only place of the searches that reads a clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


class OutOfTime(Exception):
    """The budget ended within a step; what was finished before it stands."""


@dataclass(frozen=True, slots=True)
class Deadline:
    ends: float

    @staticmethod
    def after(seconds: float | None) -> Deadline:
        return Deadline(math.inf if seconds is None else time.monotonic() + seconds)

    def check(self) -> None:
        if time.monotonic() >= self.ends:
            raise OutOfTime

    def left_s(self) -> float | None:
        """Seconds left, None where there is no end."""
        return None if self.ends == math.inf else max(0.0, self.ends - time.monotonic())
