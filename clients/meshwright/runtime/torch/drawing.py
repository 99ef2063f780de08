"""Random numbers of ops that drop elements: equal on copies, others on every part.

They follow from the seed of the first rank, the step, the microbatch, the op and which part of it a
rank has, so that an op that is run again in the backward pass drops the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Drawing:
    """Of one microbatch of a step."""

    seed: int
    step: int
    microbatch: int

    def of(self, op: str, part: int, device: torch.device) -> Context[None]:
        """Where an op draws for its part; the generator of the process is left as it was."""
        said = f"{self.seed}/{self.step}/{self.microbatch}/{part}/{op}".encode()
        return _seeded(int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big"), device)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
