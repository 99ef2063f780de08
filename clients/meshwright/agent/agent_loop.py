"""Agent loop: rank 0 leases measurements from the service, and all ranks run them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch.distributed as dist

from meshwright.agent.launcher import PATIENCE
from meshwright.agent.measurement import Measurement, MeasurementLimits
from meshwright.agent.process_context import Station
from meshwright.agent.service import IMPATIENT_S, AgentClient, Asker, Heart, Lease
from meshwright.common.files import write_whole
from meshwright.schema import InvalidInput, MeshwrightError, Progress
from meshwright.schema.agent import Agent, Results
from meshwright.schema.samples import Samples

WAIT_S = 20.0  # chosen: of one long poll, well below PATIENCE of the other ranks
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """One process of an agent.

    url: of the service. folder: for samples, and for the journal of a running measurement.
    """

    url: str
    folder: Path
    station: Station

    def follow(self) -> None:
        """Run the measurements that rank 0 broadcasts, until rank 0 ends."""
        leases = _LeaseBroadcast()
        while True:
            lease = leases.receive()
            if lease is not None:
                Measurement(self._limits(lease), self.station).run(_ignore_progress)

    def lead(self, agent: Agent, say: Say, report: Callable[[Progress], None]) -> None:
        """Lease, run and report measurements until a signal, or until another process ends."""
        leases = _LeaseBroadcast()
        signal.signal(signal.SIGTERM, _end)
        with AgentClient(self.url, patience_s=IMPATIENT_S) as client:
            asker = Asker(client, agent)
            say(f"{agent.id} waits for measurements of {self.url}")
            while True:
                lease = asker.wait(WAIT_S)
                if lease is None:
                    leases.send(None)
                    continue
                say(f"{lease.measurement}, attempt {lease.attempt}: begins")
                ending = _ResultReport(asker, lease, say)
                # heartbeats continue until the results are reported
                with Heart(self.url, agent, lease, asker.heartbeat_s) as heart, ending:

                    def report_both(progress: Progress, heart: Heart = heart) -> None:
                        heart.report(progress)
                        report(progress)

                    ending.samples = self._measure(lease, leases, report_both, heart)

    def _measure(
        self,
        lease: Lease,
        leases: _LeaseBroadcast,
        report: Callable[[Progress], None],
        heart: Heart,
    ) -> Samples | None:
        limits = self._limits(lease)
        measurement = Measurement(limits, self.station)  # before the broadcast: it may raise
        leases.send(lease)
        samples = measurement.run(report, heart)
        limits.journal.unlink(missing_ok=True)
        if heart() or samples is None:
            return None
        write_whole(limits.output, samples.to_json() + "\n")
        return samples

    def _limits(self, lease: Lease) -> MeasurementLimits:
        request = lease.asked
        return MeasurementLimits(
            self.folder / f"{lease.measurement}.json",
            request.seconds,
            request.largest,
            request.largest_bytes,
        )


class _ResultReport:
    """Context of a measurement that reports its result or error to the service."""

    def __init__(self, asker: Asker, lease: Lease, say: Say) -> None:
        self.samples: Samples | None = None
        self._asker = asker
        self._lease = lease
        self._say = say

    def __enter__(self) -> _ResultReport:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Report the end; suppress InvalidInput, so that the agent continues."""
        if error is None:
            self._report_samples()
            return False
        match error:
            case InvalidInput():
                self._end(problem=_line(error.detail))
                self._say(f"{self._lease.measurement}: {error.detail}")
                return True
            case RuntimeError():  # torch raises it when another process ends
                self._end(lost=_line(f"a process of the agent is gone: {error}"))
            case MeshwrightError():
                self._end(lost=_line(error.detail))
            case _:
                self._end(released=True)
        return False

    def _report_samples(self) -> None:
        attempt, answer = self._lease.attempt, None
        try:
            if self.samples is not None:
                answer = self._asker.end(
                    self._lease, Results(attempt=attempt, samples=self.samples)
                )
        except InvalidInput as refused:
            self._end(problem=_line(refused.detail))
            self._say(f"{self._lease.measurement}: {refused.detail}")
            return
        if answer is None:
            self._say(f"{self._lease.measurement}: not ours any more, left")
            return
        stored = answer["stored"]
        self._say(
            f"{self._lease.measurement}: calibration {stored['calibration']}, topology "
            f"{stored['topology']}; median error {stored['median_error']:.0%}"
        )

    def _end(self, **outcome: object) -> None:
        values = {"attempt": self._lease.attempt, **outcome}
        try:
            self._asker.end(self._lease, Results.from_dict(values))
        except MeshwrightError as refused:  # the service notices the end when the lease expires
            self._say(f"{self._lease.measurement}: {refused.detail}")


class _LeaseBroadcast:
    """Broadcast of leases from rank 0, over gloo on every kind of device."""

    def __init__(self) -> None:
        self._group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def send(self, lease: Lease | None) -> None:
        dist.broadcast_object_list([lease], 0, group=self._group)

    def receive(self) -> Lease | None:
        leases: list[Lease | None] = [None]
        dist.broadcast_object_list(leases, 0, group=self._group)
        return leases[0]


def _line(text: str) -> str:
    """The first line, printable and of a length that the service accepts."""
    first = (text.strip().splitlines() or ["no reason was given"])[0]
    return "".join(character for character in first if character.isprintable())[:500]


def _ignore_progress(_progress: Progress) -> None:
    """Discard progress: only rank 0 reports it."""


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
