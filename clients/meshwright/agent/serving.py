"""An agent that waits for work: the first process asks the service, the others follow it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch.distributed as dist

from meshwright.agent.local import PATIENCE
from meshwright.agent.measuring import Measurement, Wanted
from meshwright.agent.service import IMPATIENT_S, AgentClient, Asker, Heart, Lease
from meshwright.agent.station import Station
from meshwright.files import write_whole
from meshwright.schema import InvalidInput, MeshwrightError, Progress
from meshwright.schema.agent import Agent, Results
from meshwright.schema.samples import Samples

WAIT_S = 20.0  # of one long poll; chosen: the others hear of the first one well within PATIENCE
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """url: of the service. folder: where samples go, and those so far of what is under way."""

    url: str
    folder: Path
    station: Station

    def follow(self) -> None:
        """Measure what the first process says, until it is gone."""
        told = _Told()
        while True:
            lease = told.heard()
            if lease is not None:
                Measurement(self._wanted(lease), self.station).run(_silent)

    def lead(self, agent: Agent, say: Say, report: Callable[[Progress], None]) -> None:
        """Ask for measurements, measure, hand in; until a signal, or a process that is gone."""
        told = _Told()
        signal.signal(signal.SIGTERM, _end)
        with AgentClient(self.url, patience_s=IMPATIENT_S) as client:
            asker = Asker(client, agent)
            say(f"{agent.id} waits for measurements of {self.url}")
            while True:
                lease = asker.wait(WAIT_S)
                if lease is None:
                    told.say(None)
                    continue
                say(f"{lease.measurement}, attempt {lease.attempt}: begins")
                said = _Ending(asker, lease, say)
                # signs of life go on until the samples are handed in
                with Heart(self.url, agent, lease, asker.heartbeat_s) as heart, said:

                    def reported(progress: Progress, heart: Heart = heart) -> None:
                        heart.report(progress)
                        report(progress)

                    said.samples = self._measured(lease, told, reported, heart)

    def _measured(
        self, lease: Lease, told: _Told, report: Callable[[Progress], None], heart: Heart
    ) -> Samples | None:
        wanted = self._wanted(lease)
        measurement = Measurement(wanted, self.station)  # before the others hear: it may refuse
        told.say(lease)
        found = measurement.run(report, heart)
        wanted.journal.unlink(missing_ok=True)
        if heart() or found is None:
            return None
        write_whole(wanted.output, found.to_json() + "\n")
        return found

    def _wanted(self, lease: Lease) -> Wanted:
        asked = lease.asked
        return Wanted(
            self.folder / f"{lease.measurement}.json",
            asked.seconds,
            asked.largest,
            asked.largest_bytes,
        )


class _Ending:
    """Whatever happens in a measurement, the service hears how it ended."""

    def __init__(self, asker: Asker, lease: Lease, say: Say) -> None:
        self.samples: Samples | None = None
        self._asker = asker
        self._lease = lease
        self._say = say

    def __enter__(self) -> _Ending:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Refused measurements are over, and the agent goes on; what breaks it goes through."""
        if error is None:
            self._hand_in()
            return False
        match error:
            case InvalidInput():
                self._end(problem=_line(error.detail))
                self._say(f"{self._lease.measurement}: {error.detail}")
                return True
            case RuntimeError():  # torch's, where another process is gone
                self._end(lost=_line(f"a process of the agent is gone: {error}"))
            case MeshwrightError():
                self._end(lost=_line(error.detail))
            case _:
                self._end(released=True)
        return False

    def _hand_in(self) -> None:
        attempt, made = self._lease.attempt, None
        try:
            if self.samples is not None:
                made = self._asker.end(self._lease, Results(attempt=attempt, samples=self.samples))
        except InvalidInput as refused:
            self._end(problem=_line(refused.detail))
            self._say(f"{self._lease.measurement}: {refused.detail}")
            return
        if made is None:
            self._say(f"{self._lease.measurement}: not ours any more, left")
            return
        stored = made["stored"]
        self._say(
            f"{self._lease.measurement}: calibration {stored['calibration']}, topology "
            f"{stored['topology']}; median error {stored['median_error']:.0%}"
        )

    def _end(self, **how: object) -> None:
        given = {"attempt": self._lease.attempt, **how}
        try:
            self._asker.end(self._lease, Results.from_dict(given))
        except MeshwrightError as refused:  # the lease runs out, which says as much
            self._say(f"{self._lease.measurement}: {refused.detail}")


class _Told:
    """What the first process tells the others, over gloo whatever the devices are."""

    def __init__(self) -> None:
        self._group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def say(self, lease: Lease | None) -> None:
        dist.broadcast_object_list([lease], 0, group=self._group)

    def heard(self) -> Lease | None:
        said: list[Lease | None] = [None]
        dist.broadcast_object_list(said, 0, group=self._group)
        return said[0]


def _line(text: str) -> str:
    """Its first line, as a problem of the service may be."""
    first = (text.strip().splitlines() or ["no reason was given"])[0]
    return "".join(own for own in first if own.isprintable())[:500]


def _silent(_progress: Progress) -> None:
    """Only the first process shows how far it is."""


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
