"""Measurement: all processes run the same tasks in step, and rank 0 records the samples."""

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
from meshwright.agent.kernels import dtype_of, measure_kernel
from meshwright.agent.outliers import Health
from meshwright.agent.process_context import Station
from meshwright.agent.proposed_topology import propose
from meshwright.agent.resume_log import Journal, Sample
from meshwright.agent.tasks import CollectiveTask, KernelTask, collectives, kernels
from meshwright.agent.timing import Timing
from meshwright.agent.torch_names import gather_into
from meshwright.common.stop_signal import Stop, never
from meshwright.schema import Progress
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples

MOST_SECONDS = 0.5  # chosen: of one task, more does not change a median
SKIP, MEASURE, STOP = 0.0, 1.0, 2.0
# chosen: the largest dims of products and bytes of messages take a tenth of a second
LARGEST = {"cpu": (2048, 2**24)}
LARGEST_ON_CARDS = (8192, 2**28)

Task = KernelTask | CollectiveTask
Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class MeasurementLimits:
    """Limits and output file of a measurement.

    seconds: for the whole measurement. output: the file of samples; the journal is beside it.
    largest: of the dims of products. largest_bytes: of messages. None means the device's default.
    """

    output: Path
    seconds: float
    largest: int | None = None
    largest_bytes: int | None = None

    @property
    def journal(self) -> Path:
        return self.output.with_name(self.output.name + ".partial")


class Measurement:
    """One process of a measurement, in an initialized process group.

    Raises InvalidInput for an unusable journal, before any collective. Raises torch's errors when
    another process ends; the samples up to then are in the journal.
    """

    def __init__(self, limits: MeasurementLimits, station: Station) -> None:
        self._limits = limits
        self._station = station
        self._accelerator = station.accelerator
        self._places = station.places
        self._notes: list[str] = []
        self._health = Health(dist.get_world_size())
        first = dist.get_rank() == 0
        self._journal = Journal(limits.journal, station.about()) if first else None

    def run(self, report: Report, stop: Stop = never) -> Samples | None:
        """Run the tasks; rank 0 polls `stop` and returns the samples, other ranks None."""
        tasks, journal = self._tasks(), self._journal
        start = time.monotonic()
        task_seconds = min(MOST_SECONDS, self._limits.seconds / len(tasks))
        complete = True
        for done, task in enumerate(tasks):
            known = journal is not None and task.key in journal.samples
            is_late = stop() or time.monotonic() - start > self._limits.seconds
            action = self._broadcast(SKIP if known else STOP if is_late else MEASURE)
            if action == STOP:
                complete = False
                break
            if action == MEASURE:
                report(Progress(phase=task.key, done=done, total=len(tasks)))
                sample = self._measure(task, task_seconds)
                if journal is not None and sample is not None:
                    journal.add(task.key, sample)
        if journal is None:
            return None
        return self._samples(list(journal.samples.values()), complete)

    def _tasks(self) -> list[Task]:
        largest, largest_bytes = LARGEST.get(self._accelerator.kind, LARGEST_ON_CARDS)
        dtypes = tuple(str(dtype).removeprefix("torch.") for dtype in self._accelerator.dtypes)
        return [
            *kernels(dtypes, largest=self._limits.largest or largest),
            *collectives(
                self._places.sizes, largest_bytes=self._limits.largest_bytes or largest_bytes
            ),
        ]

    def _broadcast(self, mine: float) -> float:
        """The value of rank 0."""
        value = torch.tensor([mine], dtype=torch.float32, device=self._accelerator.device)
        dist.broadcast(value, 0)
        return float(value.item())

    def _measure(self, task: Task, seconds: float) -> Sample | None:
        """The sample, equal on all processes; None where a device cannot run the task."""
        if isinstance(task, CollectiveTask):
            timing = Timing.of(
                measure_collective(task, self._station.groups, self._accelerator, seconds=seconds)
            )
            return CollectiveSample(
                kind=task.kind, dtype="float32", payload_bytes=task.payload_bytes,
                extents=task.extents, ns=timing.ns, spread_ns=timing.spread_ns, runs=timing.runs,
            )  # fmt: skip
        try:
            timing = Timing.of(measure_kernel(task, self._accelerator, seconds=seconds))
        except RuntimeError as failure:  # includes out of memory
            timing = Timing(float("nan"), 0.0, 1)
            self._notes.append(f"{task.key}: {str(failure).splitlines()[0]}")
        every = self._all_gather(
            [timing.ns, timing.spread_ns, float(timing.runs), float(timing.rejected)]
        )
        medians = [ns for ns, *_ in every]
        if any(ns != ns for ns in medians):
            return None
        healthy = self._health.well(
            medians, [round(runs) for _, _, runs, _ in every], [round(row[3]) for row in every]
        )
        median_ns = statistics.median(medians[rank] for rank in healthy)
        element_bytes = dtype_of(task.dtype).itemsize
        return KernelSample(
            kind=task.kind, dtype=task.dtype, shape=task.shape, flops=task.flops,
            bytes_moved=task.bytes_moved(element_bytes), ns=median_ns,
            spread_ns=statistics.median(every[rank][1] for rank in healthy),
            runs=int(min(every[rank][2] for rank in healthy)),
            slowest=max(1.0, max(medians) / median_ns),
        )  # fmt: skip

    def _all_gather(self, numbers: list[float]) -> list[list[float]]:
        """The numbers of all processes, one row per rank."""
        device = self._accelerator.device
        local = torch.tensor(numbers, dtype=torch.float64, device=device)
        every = torch.empty(dist.get_world_size() * len(numbers), dtype=local.dtype, device=device)
        gather_into(every, local)
        rows: list[list[float]] = every.cpu().reshape(-1, len(numbers)).tolist()
        return rows

    def _samples(self, samples: list[Sample], complete: bool) -> Samples:
        kernel_samples = tuple(sample for sample in samples if isinstance(sample, KernelSample))
        is_level = [size > 1 for size in self._places.sizes]
        collective_samples = tuple(
            sample.like(extents=tuple(itertools.compress(sample.extents, is_level)))
            for sample in samples
            if isinstance(sample, CollectiveSample)
        )
        return Samples(
            backend=self._accelerator.backend,
            topology=propose(
                self._accelerator,
                self._places.sizes,
                kernels=kernel_samples,
                collectives=collective_samples,
            ),
            measured_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            software=self._station.software(),
            kernels=kernel_samples,
            collectives=collective_samples,
            complete=complete,
            notes=(*self._health.notes(), *self._notes),
        )
