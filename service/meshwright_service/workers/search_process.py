"""The child process that runs one search.

It reads a request. It writes any number of these messages:

- {"progress": …};
- {"kept": …, "seconds": […]}: the incumbent plan.

It then writes one final message:

- {"plan": …, "seconds": […], "ended_early": …}, with {"trace": …} if computing its views failed;
- {"infeasible": …}, {"problem": …} or {"fault": traceback};
- {"lost": traceback}, if one of its worker processes was killed.

SIGTERM ends the search with the incumbent plan, or ends the computation of the views.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from meshwright.common.process_pool import processes
from meshwright.common.stop_signal import StopSignal
from meshwright.plugins.planner import find_planner, planner_modules, takes
from meshwright.replan import keeping_its_way
from meshwright.reports.plan_figures import figures_of
from meshwright.reports.plan_warnings import request_warnings
from meshwright.schema import MeshwrightError, Plan, Request
from meshwright_costmodel.calibrations import shipped_calibration
from meshwright_service.common.dask_address import Scheduler
from meshwright_service.common.errors import OutOfMemory
from meshwright_service.common.memory_limit import limit_memory
from meshwright_service.plan_views.views import views_of
from meshwright_service.processes.child_main import ParentMessages
from meshwright_service.store.encoded_documents import Parts, stored_plan
from meshwright_service.workers.incumbent_reporter import IncumbentReporter
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
    """Run a planner on `processes` local processes, or on the workers of a Dask scheduler.

    memory_bytes: limit of each local process. keep_after_s: time before the first incumbent plan is
    sent.
    """
    limit = limit_memory(memory_bytes)
    with StopSignal(signal.SIGTERM) as stop:
        with Reporter(messages) as reporter:
            incumbent_reporter = IncumbentReporter(messages, stop, keep_after_s)
            child_search = _Search(planner, processes, scheduler, limit)
            message = child_search.run(sent, reporter, stop, incumbent_reporter)
        messages.write(message)


class _StopRequested(BaseException):
    """SIGTERM arrived while the views were computed."""


def plan_message(plan: Plan, request: Request, stop: StopSignal) -> dict[str, Any]:
    """The final message of a plan: its stored form, and its views unless SIGTERM arrives."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise _StopRequested

    views: Mapping[str, Parts] = {}
    trace: dict[str, str] = {}
    before = signal.signal(signal.SIGTERM, leave)
    try:
        if not stop.asked:
            calibration = shipped_calibration(plan.calibration) or request.calibration
            if calibration is not None:
                views = views_of(plan, request.graph, request.topology, request.setup, calibration)
    except _StopRequested:
        pass
    except Exception:
        trace = {"trace": traceback.format_exc()}
    finally:
        signal.signal(signal.SIGTERM, before)
    warnings, figures = request_warnings(plan, request), figures_of(plan, request)
    sent = stored_plan(plan, views, warnings, figures, request.setup)
    return {"plan": sent.to_message(), **trace}


@dataclass(frozen=True)
class _Search:
    planner: str
    processes: int
    scheduler: str
    limit: int

    def run(
        self,
        sent: bytes,
        reporter: Reporter,
        stop: StopSignal,
        incumbent_reporter: IncumbentReporter,
    ) -> dict[str, Any]:
        """Run the search and return its final message."""
        try:
            request = keeping_its_way(Request.from_json(sent))
            planner = find_planner(self.planner)
            several = self._executor(request) if takes(planner, "executor") else nullcontext()
            with several as executor:
                more: dict[str, Any] = {} if executor is None else {"executor": executor}
                if takes(planner, "keep"):
                    more["keep"] = partial(incumbent_reporter, request)
                answer = planner(request, reporter, stop, **more)
        except MeshwrightError as error:
            return {"problem": error.problem()}
        except MemoryError:
            return {"problem": self._out_of_memory().problem()}
        except BrokenExecutor:  # killed for lack of memory: a later attempt may have more
            return {"lost": traceback.format_exc()}
        except Exception:
            return {"fault": traceback.format_exc()}
        if answer.plan is not None:
            search_fields = {"seconds": answer.seconds, "ended_early": stop.heeded}
            return {**plan_message(answer.plan, request, stop), **search_fields}
        if answer.infeasible is not None:
            return {"infeasible": answer.infeasible.model_dump(mode="json", exclude_none=True)}
        return {"fault": "the planner answered with neither a plan nor an infeasibility"}

    def _out_of_memory(self) -> OutOfMemory:
        return OutOfMemory(
            f"the search takes more than {self.limit / 2**30:.1f} GiB. Use fewer axes "
            "(budget.max_axes) or a smaller graph, or raise the limit "
            "(MESHWRIGHT_SOLVE_MEMORY_BYTES)"
        )

    def _executor(self, request: Request) -> AbstractContextManager[Executor | None]:
        """An executor for independent searches: Dask workers or local processes, else None."""
        modules = planner_modules(self.planner)
        if request.pipeline.ranks == 1:  # a single stage is one search
            return nullcontext()
        scheduler = Scheduler.read(self.scheduler)
        if scheduler is None:
            return processes(self.processes, modules)
        from meshwright_service.processes.dask_executor import dask_workers  # optional dependency

        return dask_workers(scheduler, self.processes, modules)
