"""A measurement: every process does the same tasks at the same time, the first one keeps count."""

from __future__ import annotations

import datetime
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from meshwright.agent.collectives import measure_collective
from meshwright.agent.health import Health
from meshwright.agent.journal import Journal, Sample
from meshwright.agent.kernels import dtype_of, measure_kernel
from meshwright.agent.proposal import propose
from meshwright.agent.station import Station
from meshwright.agent.tasks import Collective, Kernel, collectives, kernels
from meshwright.agent.timing import Timing
from meshwright.agent.torch_names import gather_into
from meshwright.schema import Progress
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples
from meshwright.stopping import Stop, never

MOST_SECONDS = 0.5  # of one task; chosen: more does not change a median
SKIP, MEASURE, STOP = 0.0, 1.0, 2.0
# of products' dims, and of messages; chosen: the largest take a tenth of a second
LARGEST = {"cpu": (2048, 2**24)}
LARGEST_ON_CARDS = (8192, 2**28)

Task = Kernel | Collective
Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """seconds: for all of it. output: where samples go; those so far lie beside it meanwhile.

    largest, largest_bytes: of products' dims and of messages; what suits the device by default.
    """

    output: Path
    seconds: float
    largest: int | None = None
    largest_bytes: int | None = None

    @property
    def journal(self) -> Path:
        return self.output.with_name(self.output.name + ".partial")


class Measurement:
    """One process's part of a measurement, in an initialised process group.

    Raises InvalidInput where a journal is not fit, before others are needed, and torch's errors
    where another process is gone: what was measured until then is in the journal.
    """

    def __init__(self, wanted: Wanted, station: Station) -> None:
        self._wanted = wanted
        self._station = station
        self._accelerator = station.accelerator
        self._places = station.places
        self._notes: list[str] = []
        self._health = Health(dist.get_world_size())
        first = dist.get_rank() == 0
        self._journal = Journal(wanted.journal, station.about()) if first else None

    def run(self, report: Report, stop: Stop = never) -> Samples | None:
        """Measure; the first process has the samples, and is asked whether to stop."""
        tasks, journal = self._tasks(), self._journal
        begun = time.monotonic()
        each = min(MOST_SECONDS, self._wanted.seconds / len(tasks))
        complete = True
        for done, task in enumerate(tasks):
            known = journal is not None and task.key in journal.samples
            late = stop() or time.monotonic() - begun > self._wanted.seconds
            what = self._agreed(SKIP if known else STOP if late else MEASURE)
            if what == STOP:
                complete = False
                break
            if what == MEASURE:
                report(Progress(phase=task.key, done=done, total=len(tasks)))
                sample = self._measured(task, each)
                if journal is not None and sample is not None:
                    journal.add(task.key, sample)
        if journal is None:
            return None
        return self._samples(list(journal.samples.values()), complete)

    def _tasks(self) -> list[Task]:
        largest, largest_bytes = LARGEST.get(self._accelerator.kind, LARGEST_ON_CARDS)
        dtypes = tuple(str(own).removeprefix("torch.") for own in self._accelerator.dtypes)
        return [
            *kernels(dtypes, largest=self._wanted.largest or largest),
            *collectives(
                self._places.sizes, largest_bytes=self._wanted.largest_bytes or largest_bytes
            ),
        ]

    def _agreed(self, mine: float) -> float:
        """What the first process says."""
        value = torch.tensor([mine], dtype=torch.float32, device=self._accelerator.device)
        dist.broadcast(value, 0)
        return float(value.item())

    def _measured(self, task: Task, seconds: float) -> Sample | None:
        """A sample, the same on every process; None where a device cannot run the task."""
        if isinstance(task, Collective):
            timing = Timing.of(
                measure_collective(task, self._station.groups, self._accelerator, seconds=seconds)
            )
            return CollectiveSample(
                kind=task.kind, dtype="float32", payload_bytes=task.payload_bytes,
                extents=task.extents, ns=timing.ns, spread_ns=timing.spread_ns, runs=timing.runs,
            )  # fmt: skip
        try:
            own = Timing.of(measure_kernel(task, self._accelerator, seconds=seconds))
        except RuntimeError as failure:  # out of memory is one
            own = Timing(float("nan"), 0.0, 1)
            self._notes.append(f"{task.key}: {str(failure).splitlines()[0]}")
        every = self._gathered([own.ns, own.spread_ns, float(own.runs), float(own.rejected)])
        medians = [ns for ns, *_ in every]
        if any(ns != ns for ns in medians):
            return None
        well = self._health.well(
            medians, [round(runs) for _, _, runs, _ in every], [round(own[3]) for own in every]
        )
        middle = statistics.median(medians[rank] for rank in well)
        element_bytes = dtype_of(task.dtype).itemsize
        return KernelSample(
            kind=task.kind, dtype=task.dtype, shape=task.shape, flops=task.flops,
            bytes_moved=task.bytes_moved(element_bytes), ns=middle,
            spread_ns=statistics.median(every[rank][1] for rank in well),
            runs=int(min(every[rank][2] for rank in well)), slowest=max(1.0, max(medians) / middle),
        )  # fmt: skip

    def _gathered(self, numbers: list[float]) -> list[list[float]]:
        """The numbers of every process."""
        device = self._accelerator.device
        own = torch.tensor(numbers, dtype=torch.float64, device=device)
        every = torch.empty(dist.get_world_size() * len(numbers), dtype=own.dtype, device=device)
        gather_into(every, own)
        rows: list[list[float]] = every.cpu().reshape(-1, len(numbers)).tolist()
        return rows

    def _samples(self, samples: list[Sample], complete: bool) -> Samples:
        on_one = tuple(own for own in samples if isinstance(own, KernelSample))
        kept = [size > 1 for size in self._places.sizes]
        among = tuple(
            own.like(extents=tuple(itertools.compress(own.extents, kept)))
            for own in samples
            if isinstance(own, CollectiveSample)
        )
        return Samples(
            backend=self._accelerator.backend,
            topology=propose(
                self._accelerator, self._places.sizes, kernels=on_one, collectives=among
            ),
            measured_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            software=self._station.software(),
            kernels=on_one,
            collectives=among,
            complete=complete,
            notes=(*self._health.notes(), *self._notes),
        )
