"""Tasks of a measurement: kernels over shapes, collectives over groups and sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.schema.samples import CollectiveKind, KernelKind

# m, n, k of products: squares, narrow shapes of tensor parallelism, few rows
SQUARES = (256, 512, 1024, 2048, 4096, 8192)
NARROW = ((4096, 512, 4096), (4096, 4096, 512), (64, 4096, 4096), (4096, 1024, 1024))
# batch, heads, sequence, head dimension
ATTENTIONS = ((1, 8, 512, 64), (1, 8, 1024, 128), (1, 16, 2048, 64), (1, 16, 4096, 128))
ELEMENTS = (2**16, 2**20, 2**24, 2**27)
LAUNCHED = 100
PAYLOADS = (2**10, 2**14, 2**18, 2**20, 2**22, 2**24, 2**26, 2**28)
COLLECTIVES: tuple[CollectiveKind, ...] = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelTask:
    """A kernel to measure; `shape` as in KernelSample."""

    kind: KernelKind
    dtype: str
    shape: tuple[int, ...]

    @property
    def key(self) -> str:
        return f"{self.kind} {self.dtype} {'x'.join(map(str, self.shape))}"

    @property
    def flops(self) -> float:
        match self.kind:
            case "matmul":
                return 2.0 * math.prod(self.shape)
            case "attention":
                batch, heads, sequence, head_dim, causal = self.shape
                return 4.0 * batch * heads * sequence**2 * head_dim / (2 if causal else 1)
            case "memory":
                return float(self.shape[0])
            case "launch":
                return 0.0

    def bytes_moved(self, element_bytes: int) -> float:
        """Memory traffic in bytes: every operand is read and every result written once."""
        match self.kind:
            case "matmul":
                m, n, k = self.shape
                return float(element_bytes * (m * k + k * n + m * n))
            case "attention":
                batch, heads, sequence, head_dim, _ = self.shape
                return float(4 * element_bytes * batch * heads * sequence * head_dim)
            case "memory":
                return 2.0 * element_bytes * self.shape[0]
            case "launch":
                return 0.0


@dataclass(frozen=True, slots=True)
class CollectiveTask:
    """A collective to measure; `extents` are the members of a group along each level."""

    kind: CollectiveKind
    payload_bytes: int
    extents: tuple[int, ...]

    @property
    def key(self) -> str:
        return f"{self.kind} {self.payload_bytes} B {'x'.join(map(str, self.extents))}"


def kernels(dtypes: tuple[str, ...], *, largest: int) -> Iterator[KernelTask]:
    """Kernels whose products have dims of at most `largest`, the cheapest first."""
    for dtype in dtypes:
        yield KernelTask("launch", dtype, (LAUNCHED,))
        for count in ELEMENTS:
            if count <= 2 * largest**2:
                yield KernelTask("memory", dtype, (count,))
        for size in SQUARES:
            if size <= largest:
                yield KernelTask("matmul", dtype, (size, size, size))
        for shape in NARROW:
            if max(shape) <= 2 * largest:
                yield KernelTask("matmul", dtype, shape)
        for batch, heads, sequence, head_dim in ATTENTIONS:
            if sequence <= largest:
                yield KernelTask("attention", dtype, (batch, heads, sequence, head_dim, 1))


def collectives(levels: tuple[int, ...], *, largest_bytes: int) -> Iterator[CollectiveTask]:
    """Every collective over every kind of group of the levels, small messages first."""
    for payload in PAYLOADS:
        if payload <= largest_bytes:
            for kind, extents in itertools.product(COLLECTIVES, groups(levels)):
                if kind != "send" or math.prod(extents) == 2:
                    yield CollectiveTask(kind, payload, extents)


def groups(levels: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Extents of the groups to measure: pairs and all units of one level, then several levels."""
    extents_list: list[tuple[int, ...]] = []
    for place, size in enumerate(levels):
        for extent in sorted({2, size} if size > 2 and size % 2 == 0 else {size}):
            if extent > 1:
                extents_list.append(
                    tuple(extent if at == place else 1 for at in range(len(levels)))
                )
    extents_list += [
        (1,) * place + levels[place:]
        for place in reversed(range(len(levels)))
        if sum(size > 1 for size in levels[place:]) > 1
    ]
    return list(dict.fromkeys(extents_list))
