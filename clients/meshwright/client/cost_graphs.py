"""Cost graphs of other compilers at a service: solved, listed, read, deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from meshwright.client.exchange import ApiCall, Exchange, asked, deleted, got, segment
from meshwright.client.jobs import (
    OPEN,
    WAIT_S,
    Job,
    SearchCancelled,
    followed,
    get_job,
    solver_listener,
    unknown_state,
)
from meshwright.client.method_descriptor import Shelf
from meshwright.client.problems import error_of
from meshwright.schema.cost_graph import (
    CostGraphEngine,
    CostGraphFile,
    CostGraphProgress,
    CostGraphSolution,
)


def solve(
    cost_graph: CostGraphFile | str,
    *,
    engine: CostGraphEngine = "auto",
    seconds: float = 60.0,
    seed: int = 0,
    on_progress: Callable[[CostGraphProgress], None] | None = None,
    search: Literal["cached", "fresh"] = "cached",
    allow_partial: bool = False,
    max_age_s: float | None = None,
) -> Exchange[CostGraphSolution]:
    """Solve a cost graph, or a stored one by its id, and wait for the solution.

    seconds: of the search, at most. search: "fresh" searches whatever is stored. allow_partial: the
    solution of a search that was cut short will do too. max_age_s: a solution of any build that is
    not older, in seconds.
    An infeasible cost graph has a solution that says so. Raises SearchCancelled where somebody
    cancels the search and it has no choice yet; else the solution is the best until then.
    """
    body: dict[str, Any] = {"engine": engine, "seconds": float(seconds), "seed": seed}
    body |= {"cost_graph": cost_graph} if isinstance(cost_graph, str) else cost_graph.to_dict()
    path = "/v1/cost-graphs:solve"
    if search == "fresh":
        call = ApiCall("POST", path, {"fresh": "true"}, body, again="keyed")
    else:
        accepted = {"allow_partial": "true"} if allow_partial else {}
        accepted |= {} if max_age_s is None else {"max_age": f"{max_age_s:g}"}
        call = ApiCall("POST", path, accepted, body)
    answer = yield from asked(call)
    if "state" not in answer:
        return CostGraphSolution.from_dict(answer)

    job = yield from followed(answer, _is_answered, solver_listener(on_progress))
    if job.get("state") == "cancelled" and not job.get("solution"):
        job = yield from get_job(job["id"], wait_s=WAIT_S)  # its best choice may follow in a moment
    if job.get("solution"):
        return (yield from get_solution(job["solution"]))
    match job.get("state"):
        case "failed":
            raise error_of(job["problem"])
        case "cancelled":
            raise SearchCancelled(f"the search {job['id']} was cancelled")
    raise unknown_state(job)


def _is_answered(job: Job) -> bool:
    return job.get("state") not in OPEN


def get_solution(solution: str) -> Exchange[CostGraphSolution]:
    """A stored solution."""
    return CostGraphSolution.from_dict((yield from got(f"/v1/solutions/{segment(solution)}")))


def get_cost_graph(cost_graph: str) -> Exchange[CostGraphFile]:
    """A stored cost graph."""
    return CostGraphFile.from_dict((yield from got(f"/v1/cost-graphs/{segment(cost_graph)}")))


def cost_graphs() -> Shelf:
    """Entries of the stored cost graphs, the newest first."""
    return Shelf("cost-graphs")


def delete_cost_graph(cost_graph: str) -> Exchange[None]:
    """Delete a cost graph, its jobs and their solutions; InUse while an open job needs it."""
    return (yield from deleted(f"/v1/cost-graphs/{segment(cost_graph)}"))


def delete_solution(solution: str) -> Exchange[None]:
    """Delete a solution, and the jobs that found it."""
    return (yield from deleted(f"/v1/solutions/{segment(solution)}"))
