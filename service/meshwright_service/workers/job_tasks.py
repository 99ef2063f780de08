"""What a worker has child processes do for a job, and what it makes of their words."""

from __future__ import annotations

import logging
from typing import Any, Literal, Protocol

from meshwright.client.problems import error_of
from meshwright.common.process_pool import usual_processes
from meshwright.schema import Certificate, Infeasible, Progress
from meshwright.schema.cost_graph import CostGraphProgress
from meshwright_service.common.errors import Internal, TimedOut
from meshwright_service.common.memory_limit import share_of_memory
from meshwright_service.common.settings import Settings
from meshwright_service.jobs import cancellation
from meshwright_service.jobs.leases import Claim, Ended, Leases
from meshwright_service.store.database import Database
from meshwright_service.store.encoded_documents import StoredDocument, StoredPlan

log = logging.getLogger(__name__)
Interrupted = Literal["no", "cancelled", "late"]  # why a child was asked to end


class ChildTask(Protocol):
    """One child process of a job: `module:function` and its arguments, see child_process.answer.

    plan: the plan that the child is told of. limit_s: from then on it is late. Where it is late, or
    the job is cancelled, it is asked to end, and after a grace killed; 0 kills at once.
    """

    work: str
    arguments: tuple[Any, ...]
    plan: str | None
    limit_s: float
    late_grace_s: float
    cancel_grace_s: float

    def hear(self, message: dict[str, Any], interrupted: Interrupted) -> bool:
        """Act on a message of the child's; whether it was the last one."""
        ...

    def late(self) -> None:
        """It took too long, and gave nothing of use."""
        ...


class SearchTask:
    """Finds the plan of a job. to_verify: that is to be verified next."""

    work = "meshwright_service.workers.search_process:search"

    def __init__(
        self, claim: Claim, database: Database, leases: Leases, settings: Settings
    ) -> None:
        processes = settings.search_processes or usual_processes()
        memory = settings.solve_memory_bytes or share_of_memory(settings.workers, processes)
        self.arguments = (
            settings.planner, processes, settings.dask, memory, settings.keep_plan_s,
        )  # fmt: skip
        self.plan: str | None = None
        self.limit_s = settings.solve_s
        self.late_grace_s = settings.solve_grace_s
        self.cancel_grace_s = settings.cancel_grace_s
        self.to_verify = False
        self._claim = claim
        self._database = database
        self._leases = leases

    def hear(self, message: dict[str, Any], interrupted: Interrupted) -> bool:
        claim, leases = self._claim, self._leases
        match message:
            case {"progress": body}:
                leases.progress(claim, Progress.model_validate(body))
                return False
            case {"kept": body}:
                leases.keep(claim, StoredPlan.from_message(body), message["seconds"])
                return False
            case {"plan": body}:
                if "trace" in message:
                    log.error("job %s: its plan cannot be shown\n%s", claim.job, message["trace"])
                found = StoredPlan.from_message(body)
                self._keep(found, message["seconds"], message["ended_early"])
            case {"infeasible": {"constraint": "time"}} if interrupted == "late":
                self.late()
            case {"infeasible": body}:
                self._end(leases.succeed_without_plan(claim, Infeasible.model_validate(body)))
            case {"lost": _} if interrupted == "late":
                self.late()
            case _:
                self._end(end_without_answer(leases, claim, message, interrupted, "planner"))
        return True

    def late(self) -> None:
        detail = f"the search took longer than {self.limit_s:g} s and had no plan by then"
        error = TimedOut(f"{detail}; give it fewer axes or a smaller graph")
        self._end(self._leases.cut_short(self._claim, error))

    def _end(self, ended: Ended) -> None:
        self.to_verify = ended == "to verify"

    def _keep(self, plan: StoredPlan, seconds: list[float], ended_early: bool) -> None:
        found: dict[str, Any] = {"seconds": seconds, "ended_early": ended_early}
        match self._leases.succeed(self._claim, plan, **found):
            case "to verify":
                self.to_verify = True
            case "not ours":
                cancellation.keep(self._database, self._claim, plan, **found)


class VerifyTask:
    """Executes the plan of a job and ends it with the certificate."""

    work = "meshwright_service.workers.verify_process:verify"
    late_grace_s = 0.0
    cancel_grace_s = 0.0

    def __init__(self, claim: Claim, plan: str, leases: Leases, settings: Settings) -> None:
        self.arguments = (settings.verifier, settings.verify_memory_bytes)
        self.plan: str | None = plan
        self.limit_s = settings.verify_s
        self._claim = claim
        self._of = plan
        self._leases = leases

    def hear(self, message: dict[str, Any], interrupted: Interrupted) -> bool:
        del interrupted  # it has no grace
        match message:
            case {"certificate": body}:
                trace = message.get("trace")
                if trace:
                    log.error("job %s: the verifier failed\n%s", self._claim.job, trace)
                certificate = Certificate.from_dict(body)
                if certificate.outcome == "failed":
                    log.error("plan %s is wrong: %s", self._of, certificate.detail)
                self._leases.certify(self._claim, certificate, trace=trace)
            case {"lost": _}:
                lose(self._leases, self._claim, message)
        return True

    def late(self) -> None:
        why = f"time: executing it takes longer than {self.limit_s:g} s"
        certificate = Certificate(plan=self._of, outcome="not verifiable", detail=why)
        self._leases.certify(self._claim, certificate)


class SolveTask:
    """Solves the cost graph of a job."""

    work = "meshwright_service.workers.solve_process:solve"

    def __init__(
        self, claim: Claim, database: Database, leases: Leases, settings: Settings
    ) -> None:
        memory = settings.solve_memory_bytes or share_of_memory(settings.workers, 1)
        self.arguments = (settings.cost_graph_solver, memory)
        self.plan: str | None = None
        self.limit_s = settings.solve_s
        self.late_grace_s = settings.solve_grace_s
        self.cancel_grace_s = settings.cancel_grace_s
        self._claim = claim
        self._database = database
        self._leases = leases

    def hear(self, message: dict[str, Any], interrupted: Interrupted) -> bool:
        claim, leases = self._claim, self._leases
        match message:
            case {"progress": body}:
                leases.progress(claim, CostGraphProgress.model_validate(body))
                return False
            case {"solution": _, "status": "unknown"} if interrupted == "late":
                self.late()
            case {"solution": body, "status": status, "ended_early": ended_early}:
                self._keep(StoredDocument.from_message(body), status, ended_early=ended_early)
            case {"lost": _} if interrupted == "late":
                self.late()
            case _:
                end_without_answer(leases, claim, message, interrupted, "solver")
        return True

    def late(self) -> None:
        detail = f"the search took longer than {self.limit_s:g} s and had no choice by then"
        error = TimedOut(f"{detail}. Ask with fewer seconds than MESHWRIGHT_SOLVE_S")
        self._leases.cut_short(self._claim, error)

    def _keep(self, solution: StoredDocument, status: str, *, ended_early: bool) -> None:
        if self._leases.solve(self._claim, solution, status=status, ended_early=ended_early):
            return
        if status != "unknown":
            cancellation.keep_solution(self._database, self._claim, solution, status=status)


def end_without_answer(
    leases: Leases, claim: Claim, message: dict[str, Any], interrupted: Interrupted, program: str
) -> Ended:
    """End the job by the last message of a search that found nothing; program: that searched."""
    match message:
        case {"problem": body}:
            return leases.cut_short(claim, error_of(body))
        case {"fault": trace}:
            log.error("job %s: the %s failed\n%s", claim.job, program, trace)
            detail = f"the {program} failed: {trace.strip().splitlines()[-1]}"
            return leases.cut_short(claim, Internal(detail), trace=trace)
        case {"lost": _} if interrupted == "no":
            lose(leases, claim, message)
    return "ended"


def lose(leases: Leases, claim: Claim, message: dict[str, Any]) -> None:
    """The process ended without an answer."""
    trace = message["lost"]
    log.warning("job %s: its process was lost\n%s", claim.job, trace)
    if message.get("killed"):
        leases.killed(claim, trace=trace)
    else:
        leases.lost(claim, trace=trace)
