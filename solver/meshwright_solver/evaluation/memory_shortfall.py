"""Memory shortfalls: the memory that a plan needs, its peak, and remedies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.schema import Infeasible, MemoryUse

GIB = 2**30
PARTS = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "cache": "cache of keys and values",
    "activations": "saved activations",
    "recomputed": "recomputed values",
    "working": "values and gradients in use",
    "gathered": "gathered parameters and unreduced gradients",
    "buffers": "buffers of pipeline transfers",
}
_PARAMETER_STATES = ("parameters", "gradients", "optimizer")
_PER_MICROBATCH = ("activations", "recomputed", "working", "buffers")  # proportional to its samples
_LEAST_SHARE = 1e-3  # chosen: smaller parts of the whole are not listed
_MOST_SPLITS = 10  # chosen: a microbatch rarely has more than 1,024 samples


@dataclass(frozen=True, slots=True)
class Misfit:
    """Plan that needs more memory than a device has.

    batch: samples of a step, if known. recomputes: whether the plan recomputes activations.
    """

    memory: MemoryUse
    microbatches: int
    batch: int | None = None
    recomputes: bool = False

    @property
    def needed_bytes(self) -> int:
        """Memory of the plan without the reserve."""
        return self.memory.total - self.memory.reserved

    @property
    def available_bytes(self) -> int:
        return self.memory.capacity - self.memory.reserved

    @property
    def over_bytes(self) -> int:
        return self.needed_bytes - self.available_bytes

    def infeasible(self) -> Infeasible:
        """Infeasible result: the search found no plan that fits. It does not prove that none
        exists."""
        return Infeasible(
            constraint="memory",
            detail=f"no plan that fits was found; the closest {self}",
            needed_bytes=self.needed_bytes,
            available_bytes=self.available_bytes,
        )

    def __str__(self) -> str:
        at = f", at its fullest moment ({self.memory.moment})" if self.memory.moment else ""
        *others, last = self._remedies()
        remedies = f"{', '.join(others)} or {last}" if others else last
        return (
            f"needs {self.needed_bytes / GIB:.1f} GiB on a device{at}: {shown(self.memory)}. There "
            f"are {self.available_bytes / GIB:.1f} GiB after the reserve, "
            f"{self.over_bytes / GIB:.2f} GiB too few; {remedies} may do"
        )

    def _remedies(self) -> Iterator[str]:
        memory = self.memory
        count = self._enough_microbatches()
        if count is not None:
            yield f"{count} microbatches instead of {self.microbatches}"
        if not self.recomputes and memory.activations - self._inputs_bytes > self.over_bytes:
            yield "recomputing activations"
        if sum(getattr(memory, part) for part in _PARAMETER_STATES) > self.over_bytes:
            yield "parameters and their states split finer (zero, tensor parallelism) or offloaded"
        yield "devices with more memory, or more of them"

    @property
    def _inputs_bytes(self) -> float:
        """Approximate bytes saved under full recomputation: 2 s b h of 34 s b h (Korthikanti et al.
        2022, table 2)."""
        return self.memory.activations * 2 / 34

    def _enough_microbatches(self) -> int | None:
        """Smallest number of microbatches, by doubling, that saves enough memory; None if there is
        none."""
        memory = self.memory
        shrinking = sum(getattr(memory, part) for part in _PER_MICROBATCH)
        for splits in range(1, _MOST_SPLITS + 1):
            count = self.microbatches << splits
            if self.batch is not None and self.batch % count:
                return None
            if shrinking - shrinking / 2**splits >= self.over_bytes:
                return count
        return None


def shown(memory: MemoryUse) -> str:
    """Parts of the memory in GiB, largest first."""
    parts = [(getattr(memory, part), name) for part, name in PARTS.items()]
    largest = [
        part
        for part in sorted(parts, key=lambda part: -part[0])
        if part[0] > _LEAST_SHARE * memory.total
    ]
    return ", ".join(f"{name} {size / GIB:.1f}" for size, name in largest)
