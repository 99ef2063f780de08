"""The process of one search.

It is sent a request and answers with any number of {"progress": …} and of {"kept": …,
"seconds": […]}, the best plan so far, then one of {"plan": …,
"seconds": […], "ended_early": …}, {"infeasible": …}, {"problem": …}, {"fault": traceback},
{"lost": traceback} where a process that searches for it was killed;
{"trace": …} beside a plan of which no page could be made. SIGTERM asks it for the best plan so far,
and then for no pages of it.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

from meshwright.common.process_pool import processes
from meshwright.common.stop_signal import StopSignal
from meshwright.plugins.planner import find_planner, planner_modules, takes_keep
from meshwright.replan import keeping_its_way
from meshwright.schema import MeshwrightError, Plan, Request
from meshwright_costmodel.calibrations import shipped_calibration
from meshwright_service.common.dask_address import Scheduler
from meshwright_service.common.errors import OutOfMemory
from meshwright_service.common.memory_limit import limit_memory
from meshwright_service.plan_views.views import views_of
from meshwright_service.processes.child_main import ParentMessages
from meshwright_service.store.encoded_documents import Parts, stored_plan
from meshwright_service.workers.incumbent_reporter import Keeper
from meshwright_service.workers.progress_reporter import Reporter


def search(
    sent: bytes,
    messages: ParentMessages,
    planner: str,
    processes: int,
    scheduler: str,
    memory_bytes: int,
    keep_after_s: float,
) -> None:
    """Have a planner answer, with so many processes, or those of a Dask scheduler.

    memory_bytes: that each process here may take. keep_after_s: from then on its best plan so far
    is kept.
    """
    limit = limit_memory(memory_bytes)
    with StopSignal(signal.SIGTERM) as stop:
        with Reporter(messages) as reporter:
            keeper = Keeper(messages, stop, keep_after_s)
            own = _Search(planner, processes, scheduler, limit)
            message = own.of(sent, reporter, stop, keeper)
        messages.write(message)


class _Asked(BaseException):
    """SIGTERM came."""


def written(plan: Plan, request: Request, stop: StopSignal) -> dict[str, Any]:
    """The plan as it is stored, and what its pages show unless there is no time for that."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise _Asked

    views: Mapping[str, Parts] = {}
    trace: dict[str, str] = {}
    before = signal.signal(signal.SIGTERM, leave)
    try:
        if not stop.asked:
            calibration = shipped_calibration(plan.calibration) or request.calibration
            if calibration is not None:
                views = views_of(plan, request.graph, request.topology, request.setup, calibration)
    except _Asked:
        pass
    except Exception:
        trace = {"trace": traceback.format_exc()}
    finally:
        signal.signal(signal.SIGTERM, before)
    return {"plan": stored_plan(plan, views).to_message(), **trace}


@dataclass(frozen=True)
class _Search:
    planner: str
    processes: int
    scheduler: str
    limit: int

    def of(
        self, sent: bytes, reporter: Reporter, stop: StopSignal, keeper: Keeper
    ) -> dict[str, Any]:
        """The last message."""
        try:
            request = keeping_its_way(Request.from_json(sent))
            with self._executor(request) as executor:
                more: dict[str, Any] = {} if executor is None else {"executor": executor}
                planner = find_planner(self.planner)
                if takes_keep(planner):
                    more["keep"] = keeper
                answer = planner(request, reporter, stop, **more)
        except MeshwrightError as error:
            return {"problem": error.problem()}
        except MemoryError:
            return {"problem": self._out_of_memory().problem()}
        except BrokenExecutor:  # by the kernel, where memory was short: it may have more next time
            return {"lost": traceback.format_exc()}
        except Exception:
            return {"fault": traceback.format_exc()}
        if answer.plan is not None:
            found = {"seconds": answer.seconds, "ended_early": stop.heeded}
            return {**written(answer.plan, request, stop), **found}
        if answer.infeasible is not None:
            return {"infeasible": answer.infeasible.model_dump(mode="json", exclude_none=True)}
        return {"fault": "the planner answered with neither a plan nor why there is none"}

    def _out_of_memory(self) -> OutOfMemory:
        return OutOfMemory(
            f"the search takes more than {self.limit / 2**30:.1f} GiB; give it fewer axes "
            "(budget.max_axes) or a smaller graph, or let it take more "
            "(MESHWRIGHT_SOLVE_MEMORY_BYTES)"
        )

    def _executor(self, request: Request) -> AbstractContextManager[Executor | None]:
        """For searches that do not depend on each other: Dask's workers, or processes here."""
        modules = planner_modules(self.planner)
        if request.pipeline.ranks == 1:  # a single stage is one search
            return nullcontext()
        scheduler = Scheduler.read(self.scheduler)
        if scheduler is None:
            return processes(self.processes, modules)
        from meshwright_service.processes.dask_executor import dask_workers  # of an extra

        return dask_workers(scheduler, self.processes, modules)
