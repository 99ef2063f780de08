"""Jobs of a service: listed, followed to their ends, cancelled; measurements are jobs too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from meshwright.client.events import EventReader, JobEvent
from meshwright.client.exchange import (
    ApiCall,
    Exchange,
    Stream,
    asked,
    got,
    is_stream,
    moment,
    posted,
    segment,
)
from meshwright.client.method_descriptor import Shelf
from meshwright.client.problems import error_of
from meshwright.schema import MeshwrightError, Progress, Unavailable
from meshwright.schema.agent import Measure
from meshwright.schema.cost_graph import CostGraphProgress

WAIT_S = 20.0  # one long poll; chosen: below the idle limits of common proxies
LOOK_S = 0.5  # one poll where somebody watches the progress and no events come through; chosen
SILENT_STREAMS = 2  # one after another, from which on a job is polled; one may be a restart; chosen
OPEN = ("queued", "running")
Job = dict[str, Any]
OnProgress = Callable[[Progress], None]
OnStep = Callable[[dict[str, Any]], None]  # of the progress of a job, as JSON


class SearchCancelled(MeshwrightError):
    """Somebody cancelled the search."""

    slug = "cancelled"
    title = "The search was cancelled"
    status = 409


def jobs(
    *,
    state: str | Sequence[str] | None = None,
    kind: str | None = None,
    outcome: str | None = None,
    model: str | None = None,
    topology: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Shelf:
    """The jobs, the newest first. state: one, or one of several; kind: plan, solution or
    measurement; model: a glob of names of graphs;
    topology: an id; since, until: with a zone."""
    filters = {
        "state": state,
        "kind": kind,
        "outcome": outcome,
        "model": model,
        "topology": topology,
    }
    filters |= {"since": moment(since), "until": moment(until)}
    return Shelf("jobs", filters)


def get_job(job: str, *, wait_s: float = 0) -> Exchange[Job]:
    """A job; with wait_s once nothing more will come of it, or after so long."""
    return (yield from got(f"/v1/jobs/{segment(job)}", wait=wait_s or None))


def asked_by(job: str) -> Exchange[dict[str, Any]]:
    """The body that asks the same as a job again: of POST /v1/plan, of POST /v1/cost-graphs:solve,
    or of POST /v1/calibrations:measure."""
    return (yield from got(f"/v1/jobs/{segment(job)}/request"))


def cancel(job: str) -> Exchange[Job]:
    """End a job; the job as it then is."""
    return (yield from posted(f"/v1/jobs/{segment(job)}/cancel"))


def follow(
    job: str,
    *,
    on_progress: OnProgress | None = None,
    on_cost_graph_progress: Callable[[CostGraphProgress], None] | None = None,
) -> Exchange[Job]:
    """A job, once nothing more will come of it. Goes on where the service is restarted meanwhile.

    on_progress: called with every step of it; of a job that solves a cost graph,
    on_cost_graph_progress.
    """
    begun = yield from get_job(job)
    if begun.get("kind") == "solution":
        on_step = solver_listener(on_cost_graph_progress)
    else:
        on_step = planner_listener(on_progress)
    return (yield from followed(begun, lambda job: job.get("state") not in OPEN, on_step))


def planner_listener(on_progress: OnProgress | None) -> OnStep | None:
    """The listener to the steps of a search for a plan, or of a measurement."""
    if on_progress is None:
        return None
    return lambda step: on_progress(Progress.model_validate(step))


def solver_listener(on_progress: Callable[[CostGraphProgress], None] | None) -> OnStep | None:
    """The listener to the steps of a search over a cost graph."""
    if on_progress is None:
        return None
    return lambda step: on_progress(CostGraphProgress.model_validate(step))


def followed(job: Job, is_enough: Callable[[Job], bool], on_step: OnStep | None) -> Exchange[Job]:
    """A job as soon as it is enough: by its events where somebody watches, else by long polls.

    Where events do not come through, a proxy may hold them back, it is polled.
    """
    if on_step is None:
        while not is_enough(job):
            job = yield from get_job(job["id"], wait_s=WAIT_S)
        return job
    reader = EventReader(lambda event: _heard(event, on_step))
    while not is_enough(job):
        streams = reader.silent < SILENT_STREAMS
        if streams:
            yield from _streamed(job["id"], reader)
        job = yield from get_job(job["id"], wait_s=0 if streams else LOOK_S)
        if reader.silent and job.get("progress"):
            on_step(job["progress"])
    return job


def _streamed(job: str, reader: EventReader) -> Exchange[None]:
    """Read the events of a job while they come."""
    reader.begin()
    with contextlib.suppress(Unavailable):  # who asks for the job next waits until it is back
        path = f"/v1/jobs/{segment(job)}/events"
        response = yield Stream(path, reader.headers(), reader.hear)
        if not is_stream(response):
            reader.silent = SILENT_STREAMS


def _heard(event: JobEvent, on_step: OnStep) -> bool:
    """Tell of progress; whether it is time to look at the job."""
    if event.kind == "progress" and isinstance(event.data.get("progress"), dict):
        on_step(event.data["progress"])
    return event.kind in ("plan", "solution", "job")


def measure(asked_for: Measure, *, on_progress: OnProgress | None = None) -> Exchange[Job]:
    """Have an agent measure and wait for it; the job, with `samples` and `calibration`.

    Raises what the job failed of, SearchCancelled where somebody cancels it.
    """
    begun = yield from asked(
        ApiCall("POST", "/v1/calibrations:measure", body=asked_for.to_dict(), again="keyed")
    )
    job = yield from followed(
        begun, lambda job: job.get("state") not in OPEN, planner_listener(on_progress)
    )
    match job.get("state"):
        case "succeeded":
            return job
        case "failed":
            raise error_of(job["problem"])
        case "cancelled":
            raise SearchCancelled(f"the measurement {job['id']} was cancelled")
    raise unknown_state(job)


def agents() -> Shelf:
    """Entries of the registered agents, the newest first."""
    return Shelf("agents")


def unknown_state(job: Job) -> Unavailable:
    """The error of a job in a state that this client does not know."""
    return Unavailable(
        f"the job {job.get('id')} is {job.get('state')!r}: this client is older than the service"
    )
