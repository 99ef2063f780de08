"""The child process that solves one cost graph.

It reads a `SolveOrder`. It writes any number of {"progress": …}, then one of {"solution": …,
"status": …, "ended_early": …}, {"problem": …} and {"fault": traceback}. SIGTERM ends the search
with the incumbent solution.
"""

from __future__ import annotations

import signal
import traceback
from typing import Any

from meshwright.common.stop_signal import StopSignal
from meshwright.plugins.cost_graph_solver import find_cost_graph_solver
from meshwright.schema import MeshwrightError
from meshwright.schema.cost_graph import CostGraphEngine, CostGraphFile
from meshwright.schema.garbage_collection import uncollected
from meshwright.schema.model import Model
from meshwright_service.common.errors import OutOfMemory
from meshwright_service.common.memory_limit import limit_memory
from meshwright_service.processes.child_main import ParentMessages
from meshwright_service.store.encoded_documents import stored
from meshwright_service.workers.progress_reporter import Reporter


class SolveOrder(Model):
    """The input of the process: the cost graph and the options of the job."""

    cost_graph: CostGraphFile
    engine: CostGraphEngine
    seconds: float
    seed: int


def solve(sent: bytes, messages: ParentMessages, solver: str, memory_bytes: int) -> None:
    """Run the named solver within a memory limit."""
    limit = limit_memory(memory_bytes)
    with StopSignal(signal.SIGTERM) as stop:
        with Reporter(messages) as reporter:
            message = _answer(sent, solver, reporter, stop, limit)
        messages.write(message)


def _answer(
    sent: bytes, solver: str, reporter: Reporter, stop: StopSignal, limit: int
) -> dict[str, Any]:
    """Run the solver and return its final message."""
    try:
        order = _read(sent)
        solution = find_cost_graph_solver(solver)(
            order.cost_graph,
            engine=order.engine,
            seconds=order.seconds,
            seed=order.seed,
            report=reporter.of_cost_graph,
            stop=stop,
        )
        document = stored(solution).to_message()
    except MeshwrightError as error:
        return {"problem": error.problem()}
    except MemoryError:
        detail = (
            f"the search takes more than {limit / 2**30:.1f} GiB. Leave out dominated strategies, "
            "or raise the limit (MESHWRIGHT_SOLVE_MEMORY_BYTES)"
        )
        return {"problem": OutOfMemory(detail).problem()}
    except Exception:
        return {"fault": traceback.format_exc()}
    return {"solution": document, "status": solution.status, "ended_early": stop.heeded}


@uncollected
def _read(sent: bytes) -> SolveOrder:
    return SolveOrder.model_validate_json(sent)
