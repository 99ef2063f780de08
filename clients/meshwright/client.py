"""The Python client of the service."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal

import httpx
from typing_extensions import Self

from meshwright.api_key import api_key, checked_key
from meshwright.problems import error_of
from meshwright.schema import (
    Answer,
    Budget,
    Calibration,
    Certificate,
    Constraints,
    Degrees,
    Document,
    Graph,
    Infeasible,
    MeshwrightError,
    Pin,
    Pipeline,
    Plan,
    Progress,
    Recompute,
    Setup,
    Topology,
    Unavailable,
    Wishes,
)
from meshwright.schema.agent import Measure
from meshwright.schema.observation import Observation
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.residuals import Residuals
from meshwright.schema.samples import Samples
from meshwright.schema.simulation import Simulation
from meshwright.schema.transfer import DeviceTransfer, MovedStates, Transfer
from meshwright.schema.wishes import Rest, Solver

WAIT_S = 20.0  # one long poll; chosen: below the idle limits of common proxies
LOOK_S = 0.5  # one poll where somebody watches the progress; chosen
COMPRESS_FROM = 4096  # bytes; chosen
PAUSES_S = (0.1, 0.4, 1.6)  # between tries; chosen


class SearchCancelled(MeshwrightError):
    """Somebody cancelled the search."""

    slug = "cancelled"
    title = "The search was cancelled"
    status = 409


class Client:
    """Talks to one service. Use it from one thread; close it, or use it in a `with`.

    key: an API key, where the service asks for one; by default that of the environment
    (meshwright.api_key).
    Raises what the service answers as the errors of meshwright.schema, and Unavailable where no
    answer comes. Reads are tried again, writes only where the service was never reached.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout_s: float = 60,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        secret = api_key() if key is None else checked_key(key, "key")
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers={} if secret is None else {"Authorization": f"Bearer {secret}"},
                timeout=timeout_s,
                transport=transport,
                follow_redirects=False,
            )
        except httpx.InvalidURL as failure:
            raise Unavailable(f"{url!r} is not a URL: {failure}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def plan(
        self,
        graph: Graph | str,
        topology: Topology | str,
        *,
        setup: Setup | None = None,
        calibration: Calibration | str | None = None,
        pins: Sequence[Pin] = (),
        solver: Solver = "auto",
        rest: Rest = "data_parallel",
        constraints: Constraints | None = None,
        pipeline: Pipeline | None = None,
        degrees: Degrees | None = None,
        recompute: Recompute | None = None,
        module: str | None = None,
        budget: Budget | None = None,
        from_plan: str | None = None,
        steps: int | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        verify: bool = False,
        search: Literal["cached", "fresh"] = "cached",
    ) -> Answer:
        """Ask for a plan and wait for it. Documents may be ids, the topology a preset's name.

        from_plan: the id of the stored plan that the job runs now, with so many steps left: moving
        from there counts, and the plan's `move` says what it costs.
        verify: the plan is executed too, and the answer has its certificate; look at its outcome.
        Raises SearchCancelled where somebody cancels the search and it has no plan yet, or verify
        is asked; else the answer is the best plan until then, `ended_early`.
        """
        body: dict[str, Any] = {"graph": _sent(graph), "topology": _sent(topology)}
        if setup is not None:
            body["setup"] = setup.to_dict()
        if calibration is not None:
            body["calibration"] = _sent(calibration)
        wishes = Wishes.model_construct(
            pins=tuple(pins),
            solver=solver,
            rest=rest,
            constraints=constraints or Constraints(),
            pipeline=pipeline or Pipeline(),
            degrees=degrees,
            recompute=recompute or Recompute(),
            module=module,
            budget=budget or Budget(),
        )
        body |= wishes.model_dump(mode="json", exclude_defaults=True)
        if from_plan is not None:
            body["from_plan"] = from_plan
        if steps is not None:
            body["steps"] = steps
        if verify:
            body["verify"] = True
        path = "/v1/plan" + ("?fresh=true" if search == "fresh" else "")
        answer = self._json("POST", path, body)
        while "stages" not in answer:
            if answer.get("state") == "cancelled" and not answer.get("plan"):
                answer = self._json("GET", f"/v1/jobs/{answer['id']}?wait={WAIT_S}")  # it may come
            ended = self._ended(answer, verify=verify)
            if ended is not None:
                return ended
            if on_progress is not None and answer.get("progress"):
                on_progress(Progress.model_validate(answer["progress"]))
            wait_s = WAIT_S if on_progress is None else LOOK_S
            answer = self._json("GET", f"/v1/jobs/{answer['id']}?wait={wait_s}")
        plan = Plan.from_dict(answer)
        return Answer(plan=plan, certificate=self.certificate(plan.id) if verify else None)

    def upload_graph(self, graph: Graph) -> str:
        """Store a graph; its id."""
        return str(self._json("POST", "/v1/graphs", graph.to_dict())["id"])

    def upload_topology(self, topology: Topology) -> str:
        """Store a topology; its id."""
        return str(self._json("POST", "/v1/topologies", topology.to_dict())["id"])

    def upload_calibration(self, calibration: Calibration) -> str:
        """Store a calibration; its id."""
        return str(self._json("POST", "/v1/calibrations", calibration.to_dict())["id"])

    def upload_samples(self, samples: Samples) -> dict[str, Any]:
        """Store samples; the ids of them, of their topology and of the calibration fitted to them.

        `median_error` says how well that tells the samples' times.
        """
        return self._json("POST", "/v1/samples", samples.to_dict())

    def measure(
        self, asked: Measure, *, on_progress: Callable[[Progress], None] | None = None
    ) -> dict[str, Any]:
        """Have an agent measure and wait for it; the job, with `samples` and `calibration`.

        Raises what the job failed of, SearchCancelled where somebody cancels it.
        """
        job = self._json("POST", "/v1/calibrations:measure", asked.to_dict())
        while job.get("state") in ("queued", "running"):
            if on_progress is not None and job.get("progress"):
                on_progress(Progress.model_validate(job["progress"]))
            wait_s = WAIT_S if on_progress is None else LOOK_S
            job = self._json("GET", f"/v1/jobs/{job['id']}?wait={wait_s}")
        match job.get("state"):
            case "succeeded":
                return job
            case "failed":
                raise error_of(job["problem"])
            case "cancelled":
                raise SearchCancelled(f"the measurement {job['id']} was cancelled")
        raise self._strange()

    def agents(self) -> Iterator[dict[str, Any]]:
        """Entries of the registered agents, the newest first."""
        return self._list("agents")

    def observe(self, observation: Observation) -> dict[str, Any]:
        """Report a measured step of a stored plan.

        `ratio`: measured over predicted; `calibration`: the id of the plan's, corrected by all
        observations of the stack.
        """
        path = f"/v1/plans/{segment(observation.plan)}/observations"
        return self._json("POST", path, observation.to_dict())

    def observations(self, plan: str) -> Iterator[dict[str, Any]]:
        """What was measured of a stored plan, the newest first."""
        return self._list(f"plans/{segment(plan)}/observations")

    def get_calibration(self, calibration: str) -> Calibration:
        """A stored calibration."""
        found = self._json("GET", f"/v1/calibrations/{segment(calibration)}")
        return Calibration.from_dict(found)

    def residuals(self, calibration: str) -> Residuals:
        """What a stored calibration says of its samples, over what they took."""
        path = f"/v1/calibrations/{segment(calibration)}/residuals"
        return Residuals.from_dict(self._json("GET", path))

    def get_plan(self, plan: str) -> Plan:
        """A stored plan."""
        return Plan.from_dict(self._json("GET", f"/v1/plans/{segment(plan)}"))

    def get_rank_strategy(
        self, plan: str, rank: int, known: RankStrategy | None = None
    ) -> RankStrategy:
        """What one rank of a stored plan does; `known`, where that is still it."""
        path = f"/v1/plans/{segment(plan)}/ranks/{rank}/strategy"
        response = self._send("GET", path, tag=None if known is None else known.id)
        if known is not None and response.status_code == 304:
            return known
        return RankStrategy.from_dict(self._value(response))

    def certificate(self, plan: str) -> Certificate:
        """What executing a stored plan showed; NotFound where nobody asked for that."""
        path = f"/v1/plans/{segment(plan)}/certificate"
        return Certificate.from_dict(self._json("GET", path))

    def get_graph(self, graph: str) -> Graph:
        """A stored graph."""
        return Graph.from_dict(self._json("GET", f"/v1/graphs/{segment(graph)}"))

    def get_topology(self, topology: str) -> Topology:
        """A stored topology."""
        return Topology.from_dict(self._json("GET", f"/v1/topologies/{segment(topology)}"))

    def plans(
        self, *, graph: str | None = None, topology: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Summaries of the stored plans, the newest first."""
        return self._list("plans", graph=graph, topology=topology)

    def graphs(self) -> Iterator[dict[str, Any]]:
        """Entries of the stored graphs, the newest first."""
        return self._list("graphs")

    def topologies(self) -> Iterator[dict[str, Any]]:
        """Entries of the stored topologies, the newest first."""
        return self._list("topologies")

    def calibrations(self) -> Iterator[dict[str, Any]]:
        """Entries of the stored calibrations, the newest first."""
        return self._list("calibrations")

    def samples(self) -> Iterator[dict[str, Any]]:
        """Entries of the stored samples, the newest first."""
        return self._list("samples")

    def jobs(self, *, state: str | None = None) -> Iterator[dict[str, Any]]:
        """The jobs, the newest first."""
        return self._list("jobs", state=state)

    def redistributions(self, plan: str) -> Iterator[dict[str, Any]]:
        """The collectives of a stored plan, edge by edge."""
        found = self._json("GET", f"/v1/plans/{segment(plan)}/redistributions")
        yield from found["redistributions"]

    def simulation(self, plan: str) -> Simulation:
        """One step of a stored plan, run task by task."""
        found = self._json("GET", f"/v1/plans/{segment(plan)}/simulation")
        return Simulation.from_dict(found)

    def timeline(self, plan: str) -> dict[str, Any]:
        """The same as a Chrome trace, which Perfetto opens."""
        return self._json("GET", f"/v1/plans/{segment(plan)}/timeline")

    def transfer(
        self,
        from_plan: str,
        to_plan: str,
        *,
        state: MovedStates = "all",
        first: int = 0,
        cluster: str | None = None,
        device: int | None = None,
    ) -> Transfer | DeviceTransfer:
        """Move the parameters of one stored plan to another; with `device` what that one does.

        cluster: the id of a topology or the name of a preset that both lie in.
        """
        given: dict[str, Any] = {"from_plan": from_plan, "to_plan": to_plan, "state": state}
        given |= {"first": first} if first else {}
        given |= {"cluster": cluster} if cluster is not None else {}
        given |= {"device": device} if device is not None else {}
        found = self._json("GET", f"/v1/redistributions?{httpx.QueryParams(given)}")
        return Transfer.from_dict(found) if device is None else DeviceTransfer.from_dict(found)

    def cancel(self, job: str) -> dict[str, Any]:
        """End a job; the job as it then is."""
        return self._json("POST", f"/v1/jobs/{segment(job)}/cancel")

    def _ended(self, job: dict[str, Any], *, verify: bool) -> Answer | None:
        search: dict[str, Any] = {"seconds": job.get("seconds") or ()}
        search["ended_early"] = job.get("ended_early", False)
        if job.get("plan") and not verify:  # it may be under verification for somebody else
            return Answer(plan=self.get_plan(job["plan"]), **search)
        match job.get("state"):
            case "succeeded" if job.get("infeasible"):
                return Answer(infeasible=Infeasible.model_validate(job["infeasible"]))
            case "succeeded":
                plan = job["plan"]
                found = self.get_plan(plan)
                return Answer(plan=found, certificate=self.certificate(plan), **search)
            case "failed":
                raise error_of(job["problem"])
            case "cancelled":
                left = f"; {job['plan']} is stored, not verified" if job.get("plan") else ""
                raise SearchCancelled(f"the search {job['id']} was cancelled{left}")
            case "queued" | "running":
                return None
        raise self._strange()

    def _list(self, shelf: str, **filters: str | None) -> Iterator[dict[str, Any]]:
        given = {name: value for name, value in filters.items() if value is not None}
        while True:
            page = self._json("GET", f"/v1/{shelf}?{httpx.QueryParams(given)}")
            yield from page[shelf.rpartition("/")[2]]
            if not page.get("next_page_token"):
                return
            given["page_token"] = page["next_page_token"]

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._value(self._send(method, path, body))

    def _value(self, response: httpx.Response) -> dict[str, Any]:
        try:
            value = response.json()
        except ValueError:
            raise self._strange() from None
        if not isinstance(value, dict):
            raise self._strange()
        if response.is_success:
            return value
        if "problem+json" not in response.headers.get("content-type", ""):
            raise self._strange()
        raise error_of(value)

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None, tag: str | None = None
    ) -> httpx.Response:
        """tag: the ETag of what the caller has."""
        headers = {} if tag is None else {"If-None-Match": f'"{tag}"'}
        content: bytes | None = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
            if len(content) >= COMPRESS_FROM:
                headers["Content-Encoding"] = "gzip"
                content = gzip.compress(content, compresslevel=5, mtime=0)
        for pause_s in (*PAUSES_S, None):
            try:
                return self._http.request(method, path, content=content, headers=headers)
            except (httpx.UnsupportedProtocol, httpx.InvalidURL):
                raise Unavailable(
                    f"{self.url!r} is not the URL of a service; give one such as "
                    "http://127.0.0.1:8780"
                ) from None
            except httpx.TransportError as failure:
                unsent = isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout)
                if pause_s is None or not (unsent or method == "GET"):
                    raise Unavailable(
                        f"no answer from {self.url}: {failure or type(failure).__name__}; is the "
                        "service running there?"
                    ) from None
                self._sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def _strange(self) -> Unavailable:
        return Unavailable(f"{self.url} answers, but not as a Meshwright service does")


def _sent(part: Document | str) -> Any:
    return part if isinstance(part, str) else part.to_dict()


def segment(id_: str) -> str:
    """An id as a part of a path; what is no id stays one segment and is not found."""
    return "".join(c if c.isalnum() or c == "_" else "-" for c in id_) or "-"
