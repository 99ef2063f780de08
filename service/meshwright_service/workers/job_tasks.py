"""Child tasks of a job: the arguments of a child process and the handling of its messages."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
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
Interrupted = Literal["no", "cancelled", "late"]  # reason of the SIGTERM to the child process


class ChildTask(Protocol):
    """One child process of a job.

    work: its `module:function`; see `meshwright_service.processes.child_main`. plan: the id of the
    plan in its input. limit_s: its time limit. After the time limit or a cancellation the worker
    sends SIGTERM, and kills the process after the grace period; 0 kills it at once.
    """

    work: str
    arguments: tuple[Any, ...]
    plan: str | None
    limit_s: float
    late_grace_s: float
    cancel_grace_s: float

    def hear(self, message: dict[str, Any], interrupted: Interrupted) -> bool:
        """Handle a message of the child process; True for its final message."""
        ...

    def late(self) -> None:
        """Handle a child process that exceeded its time limit without a result."""
        ...


class _AnswerTask(ABC):
    """A task whose child process searches for the answer of a job, under the search limits."""

    def __init__(
        self, claim: Claim, database: Database, leases: Leases, settings: Settings
    ) -> None:
        self.arguments = self._arguments(settings)
        self.plan: str | None = None
        self.limit_s = settings.solve_s
        self.late_grace_s = settings.solve_grace_s
        self.cancel_grace_s = settings.cancel_grace_s
        self._claim = claim
        self._database = database
        self._leases = leases

    @abstractmethod
    def _arguments(self, settings: Settings) -> tuple[Any, ...]:
        """The arguments of the child process after its input and its connection."""


class SearchTask(_AnswerTask):
    """Searches for the plan of a job. to_verify: whether the plan is to be verified next."""

    work = "meshwright_service.workers.search_process:search"
    to_verify = False

    def _arguments(self, settings: Settings) -> tuple[Any, ...]:
        processes = settings.search_processes or usual_processes()
        memory = settings.solve_memory_bytes or share_of_memory(settings.workers, processes)
        return settings.planner, processes, settings.dask, memory, settings.keep_plan_s

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
                plan = StoredPlan.from_message(body)
                self._store(plan, message["seconds"], message["ended_early"])
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
        error = TimedOut(f"{detail}. Use fewer axes or a smaller graph")
        self._end(self._leases.cut_short(self._claim, error))

    def _end(self, ended: Ended) -> None:
        self.to_verify = ended == "to verify"

    def _store(self, plan: StoredPlan, seconds: list[float], ended_early: bool) -> None:
        search_fields: dict[str, Any] = {"seconds": seconds, "ended_early": ended_early}
        match self._leases.succeed(self._claim, plan, **search_fields):
            case "to verify":
                self.to_verify = True
            case "not ours":
                cancellation.keep(self._database, self._claim, plan, **search_fields)


class VerifyTask:
    """Executes the plan of a job and ends the job with the certificate."""

    work = "meshwright_service.workers.verify_process:verify"
    late_grace_s = 0.0
    cancel_grace_s = 0.0

    def __init__(self, claim: Claim, plan: str, leases: Leases, settings: Settings) -> None:
        self.arguments = (settings.verifier, settings.verify_memory_bytes)
        self.plan: str | None = plan
        self.limit_s = settings.verify_s
        self._claim = claim
        self._plan = plan
        self._leases = leases

    def hear(self, message: dict[str, Any], interrupted: Interrupted) -> bool:
        del interrupted  # always "no": there is no grace period
        match message:
            case {"certificate": body}:
                trace = message.get("trace")
                if trace:
                    log.error("job %s: the verifier failed\n%s", self._claim.job, trace)
                certificate = Certificate.from_dict(body)
                if certificate.outcome == "failed":
                    log.error("plan %s is wrong: %s", self._plan, certificate.detail)
                self._leases.certify(self._claim, certificate, trace=trace)
            case {"lost": _}:
                lose(self._leases, self._claim, message)
        return True

    def late(self) -> None:
        why = f"time: executing it takes longer than {self.limit_s:g} s"
        certificate = Certificate(plan=self._plan, outcome="not verifiable", detail=why)
        self._leases.certify(self._claim, certificate)


class SolveTask(_AnswerTask):
    """Solves the cost graph of a job."""

    work = "meshwright_service.workers.solve_process:solve"

    def _arguments(self, settings: Settings) -> tuple[Any, ...]:
        memory = settings.solve_memory_bytes or share_of_memory(settings.workers, 1)
        return settings.cost_graph_solver, memory

    def hear(self, message: dict[str, Any], interrupted: Interrupted) -> bool:
        claim, leases = self._claim, self._leases
        match message:
            case {"progress": body}:
                leases.progress(claim, CostGraphProgress.model_validate(body))
                return False
            case {"solution": _, "status": "unknown"} if interrupted == "late":
                self.late()
            case {"solution": body, "status": status, "ended_early": ended_early}:
                self._store(StoredDocument.from_message(body), status, ended_early=ended_early)
            case {"lost": _} if interrupted == "late":
                self.late()
            case _:
                end_without_answer(leases, claim, message, interrupted, "solver")
        return True

    def late(self) -> None:
        detail = f"the search took longer than {self.limit_s:g} s and had no choice by then"
        error = TimedOut(f"{detail}. Request fewer seconds than MESHWRIGHT_SOLVE_S")
        self._leases.cut_short(self._claim, error)

    def _store(self, solution: StoredDocument, status: str, *, ended_early: bool) -> None:
        if self._leases.solve(self._claim, solution, status=status, ended_early=ended_early):
            return
        if status != "unknown":
            cancellation.keep_solution(self._database, self._claim, solution, status=status)


def end_without_answer(
    leases: Leases, claim: Claim, message: dict[str, Any], interrupted: Interrupted, program: str
) -> Ended:
    """End a job by the final message of a search without a result.

    program: the name of the searching program for logs and messages.
    """
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
    """Record that the child process of a job ended without a final message."""
    trace = message["lost"]
    log.warning("job %s: its process was lost\n%s", claim.job, trace)
    if message.get("killed"):
        leases.killed(claim, trace=trace)
    else:
        leases.lost(claim, trace=trace)
