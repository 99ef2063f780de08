"""Random numbers of dropout: equal on replicas, different on every shard.

They depend on the seed of the first rank, the step, the microbatch, the op and the index of the
shard, so that a recomputed op drops the same elements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DropoutSeed:
    """The seed of one microbatch of a step."""

    seed: int
    step: int
    microbatch: int

    def of(self, op: str, part: int, device: torch.device) -> Context[None]:
        """A context with the generator of an op's shard; the process's generator is restored."""
        key = f"{self.seed}/{self.step}/{self.microbatch}/{part}/{op}".encode()
        return _generator(
            int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big"), device
        )


@contextmanager
def _generator(seed: int, device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
