"""Slow and unsteady devices: by hand, and with a process that is throttled."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.agent.launcher import run_here
from meshwright.agent.outliers import Health
from meshwright.agent.timing import Timing
from meshwright.schema.samples import KernelSample, Samples

STEADY = ([10, 10], [0, 0])


def test_of_two_devices_the_slower_is_left_out() -> None:
    health = Health(2)
    assert health.well([100.0, 140.0], *STEADY) == [0, 1]
    assert health.well([100.0, 160.0], *STEADY) == [0]
    (note,) = health.notes()
    assert note.startswith("rank 1 is slow at times: in 1 of 2 kernels, 1.6 times the others")


def test_a_device_slow_in_most_kernels_is_slow() -> None:
    health = Health(3)
    for factor in (2.0, 3.0, 4.0):
        assert health.well([100.0, factor * 100, 101.0], [9] * 3, [0] * 3) == [0, 2]
    (note,) = health.notes()
    assert note.startswith("rank 1 is slow: in 3 of 3 kernels, 3.0 times the others, at most 4.0")


def test_devices_alike_are_not_named() -> None:
    health = Health(4)
    assert health.well([100.0, 101.0, 99.0, 130.0], [9] * 4, [1, 0, 1, 0]) == [0, 1, 2, 3]
    assert health.notes() == []


def test_runs_in_bursts_are_left_out_and_their_device_named() -> None:
    # three runs of ten take five times as long: the median stays
    runs = [100.0 + at % 3 for at in range(70)] + [500.0] * 30
    own = Timing.of(runs)
    assert (own.ns, own.runs, own.rejected) == (101.0, 70, 30)
    health = Health(2)
    steady = Timing.of([100.0 + at % 3 for at in range(100)])
    well = health.well([steady.ns, own.ns], [steady.runs, own.runs], [0, own.rejected])
    assert well == [0, 1]
    assert health.notes() == [
        "rank 1 is unsteady: 30% of its runs are far from their median and left out"
    ]


# Their clock is the thread's own: what else a busy machine does is not what is told apart here.
THROTTLED = """
import os, sys, time
time.perf_counter_ns = time.thread_time_ns
import torch
whole, calls = torch.mm, 0

def throttled(left, right, **more):
    global calls
    calls += 1
    begun = time.thread_time()
    result = whole(left, right, **more)
    if {when}:
        until = begun + 8 * (time.thread_time() - begun)
        while time.thread_time() < until:
            pass
    return result

if os.environ["RANK"] == "1":
    torch.mm = throttled
from meshwright.cli import main
main(["agent", "-o", sys.argv[1], "--seconds", "5", "--largest", "512", "--largest-bytes", "1024"])
"""


def kernels(samples: Samples, kind: str) -> dict[tuple[int, ...], KernelSample]:
    return {own.shape: own for own in samples.kernels if own.kind == kind}


def measured(path: Path, when: str) -> Samples:
    """With a process whose products are throttled at times, as a hot device's are."""
    assert run_here(["-c", THROTTLED.format(when=when), str(path)], 2) == 0
    return Samples.from_json(path.read_bytes())


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        return measured(tmp_path_factory.mktemp("steady") / "s.json", "False")


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("calls % 20 < 8", "rank 1 is unsteady"),  # four runs of ten
        ("left.shape[0] == 256", "rank 1 is slow"),
    ],
)
def test_a_throttled_process_is_named_and_moves_no_sample(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steady: Samples,
    when: str,
    said: str,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = measured(tmp_path / "s.json", when)
    products, before = kernels(found, "matmul"), kernels(steady, "matmul")
    assert any(note.startswith(said) for note in found.notes), found.notes
    # its runs take eight times as long, the mean of both would be 4.5 times the steady one's
    assert {shape: own.ns < 3 * before[shape].ns for shape, own in products.items()} == {
        (256, 256, 256): True, (512, 512, 512): True,
    }  # fmt: skip
    if when != "calls % 20 < 8":
        assert products[256, 256, 256].slowest > 4
