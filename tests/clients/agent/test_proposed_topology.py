from __future__ import annotations

import pytest

from meshwright.agent.accelerator import Accelerator
from meshwright.agent.proposed_topology import propose
from meshwright.plugins.planner import preset
from meshwright.schema import InvalidInput
from meshwright.schema.samples import SIZES, CollectiveSample, KernelSample

CPU = Accelerator("cpu", 0, "Some CPU", 64 * 2**30, ())


def kernel(kind: str, flops: float, moved: float, ns: float) -> KernelSample:
    return KernelSample.model_validate(
        {
            "kind": kind, "dtype": "float32", "shape": (1,) * SIZES[kind], "flops": flops,
            "bytes_moved": moved, "ns": ns, "spread_ns": 0, "runs": 5,
        }
    )  # fmt: skip


def gather(payload: int, extents: tuple[int, ...], ns: float) -> CollectiveSample:
    return CollectiveSample(
        kind="all_gather", dtype="float32", payload_bytes=payload, extents=extents, ns=ns,
        spread_ns=0, runs=5,
    )  # fmt: skip


KERNELS = [
    kernel("matmul", 2e6, 1, 1e3),
    kernel("matmul", 8e9, 1, 2e6),
    kernel("memory", 1, 1e6, 1e5),
    kernel("memory", 1, 3e6, 2e5),
]


def test_known_devices_have_their_preset():
    card = Accelerator("cuda", 0, "NVIDIA H100 80GB HBM3", 85 * 10**9, ())
    assert propose(card, (2, 8), kernels=[], collectives=[]) == preset("h100-2x8")


def test_a_server_that_is_not_sold_so_is_as_measured():
    card = Accelerator("cuda", 0, "NVIDIA H100 80GB HBM3", 85 * 10**9, ())
    found = propose(card, (1, 16), kernels=KERNELS, collectives=[gather(1600, (16,), 100)])
    assert [level.size for level in found.levels] == [16]
    assert found.device.memory_bytes == 85 * 10**9


def test_what_is_not_known_is_the_best_that_was_measured():
    # a gather of 8 MB over 4 takes in 6 MB in 2 ms; a step of a small one, in two, 20 us
    among = [gather(8_000_000, (1, 4), 2e6), gather(1024, (1, 4), 4e4), gather(10**9, (2, 1), 1e9)]
    found = propose(CPU, (2, 4), kernels=KERNELS, collectives=among)
    assert found.device.flops_per_s == {"float32": 4e12}
    assert found.device.memory_bytes_per_s == 1.5e10
    assert found.device.memory_bytes == 16 * 2**30  # a fourth of the machine's
    outer, inner = found.levels
    assert (outer.name, inner.name) == ("host", "device")
    assert inner.link.device_bytes_per_s == pytest.approx(3e9)
    assert inner.link.latency_ns == 20_000
    assert outer.link.device_bytes_per_s == pytest.approx(5e8)


def test_one_device_has_one_level_of_one():
    found = propose(CPU, (1, 1), kernels=KERNELS, collectives=[])
    assert [(level.name, level.size) for level in found.levels] == [("device", 1)]


def test_a_measurement_that_ended_too_early_says_so():
    with pytest.raises(InvalidInput, match="Increase --seconds"):
        propose(CPU, (1, 2), kernels=KERNELS[2:], collectives=[])
