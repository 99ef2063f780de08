"""Asking for plans: what is sent, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from meshwright.client.exchange import ApiCall, Exchange, asked, sent
from meshwright.client.jobs import (
    OPEN,
    WAIT_S,
    Job,
    SearchCancelled,
    followed,
    get_job,
    planner_listener,
    unknown_state,
)
from meshwright.client.plans import certificate, get_plan
from meshwright.client.problems import error_of
from meshwright.schema import (
    Answer,
    Budget,
    Calibration,
    Constraints,
    Degrees,
    Graph,
    Infeasible,
    Pin,
    Pipeline,
    Plan,
    Progress,
    Recompute,
    Setup,
    Topology,
    Wishes,
)
from meshwright.schema.request_options import Rest, Solver
from meshwright.schema.target import Target


def plan(
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
    target: Target | None = None,
    recompute: Recompute | None = None,
    module: str | None = None,
    budget: Budget | None = None,
    from_plan: str | None = None,
    steps: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    verify: bool = False,
    search: Literal["cached", "fresh"] = "cached",
    allow_partial: bool = False,
    max_age_s: float | None = None,
) -> Exchange[Answer]:
    """Ask for a plan and wait for it. Documents may be ids, the topology a preset's name.

    target: the framework that runs the plan; only what its options state is searched.
    from_plan: the id of the stored plan that the job runs now, with so many steps left: moving
    from there counts, and the plan's `move` says what it costs.
    verify: the plan is executed too, and the answer has its certificate; look at its outcome.
    search: "fresh" searches whatever is stored. A stored answer is taken where its search came to
    its end; allow_partial: one that was cut short by a limit of the service too. max_age_s: one
    that is not older, in seconds, of any build of the planner (`Plan.planner_build`); without it,
    only answers of the build that the service runs.
    Raises SearchCancelled where somebody cancels the search and it has no plan yet, or verify
    is asked; else the answer is the best plan until then, `ended_early`.
    """
    wishes = Wishes(
        pins=tuple(pins),
        solver=solver,
        rest=rest,
        constraints=constraints or Constraints(),
        pipeline=pipeline or Pipeline(),
        degrees=degrees,
        target=target,
        recompute=recompute or Recompute(),
        module=module,
        budget=budget or Budget(),
    )
    body: dict[str, Any] = {"graph": sent(graph), "topology": sent(topology)}
    body |= {} if setup is None else {"setup": sent(setup)}
    body |= {} if calibration is None else {"calibration": sent(calibration)}
    body |= wishes.model_dump(mode="json", exclude_defaults=True)
    body |= {} if from_plan is None else {"from_plan": from_plan}
    body |= {} if steps is None else {"steps": steps}
    body |= {"verify": True} if verify else {}
    if search == "fresh":
        call = ApiCall("POST", "/v1/plan", {"fresh": "true"}, body, again="keyed")
    else:
        accepted = {"allow_partial": "true"} if allow_partial else {}
        accepted |= {} if max_age_s is None else {"max_age": f"{max_age_s:g}"}
        call = ApiCall("POST", "/v1/plan", accepted, body)
    answer = yield from asked(call)
    if "stages" in answer:
        found = Plan.from_dict(answer)
        certified = (yield from certificate(found.id)) if verify else None
        return Answer(plan=found, certificate=certified)

    def is_answered(job: Job) -> bool:  # it may be under verification for somebody else
        return job.get("state") not in OPEN or (bool(job.get("plan")) and not verify)

    job = yield from followed(answer, is_answered, planner_listener(on_progress))
    if job.get("state") == "cancelled" and not job.get("plan"):
        job = yield from get_job(job["id"], wait_s=WAIT_S)  # its best plan may follow in a moment
    return (yield from _ended(job, verify=verify))


def _ended(job: Job, *, verify: bool) -> Exchange[Answer]:
    search: dict[str, Any] = {"seconds": job.get("seconds") or ()}
    search["ended_early"] = job.get("ended_early", False)
    stored = job.get("plan")
    if stored and not verify:
        return Answer(plan=(yield from get_plan(stored)), **search)
    match job.get("state"):
        case "succeeded" if job.get("infeasible"):
            return Answer(infeasible=Infeasible.model_validate(job["infeasible"]))
        case "succeeded":
            found = yield from get_plan(job["plan"])
            return Answer(plan=found, certificate=(yield from certificate(found.id)), **search)
        case "failed":
            raise error_of(job["problem"])
        case "cancelled":
            left = f"; {stored} is stored, not verified" if stored else ""
            raise SearchCancelled(f"the search {job['id']} was cancelled{left}")
    raise unknown_state(job)
