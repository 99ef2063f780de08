"""The shared context of all searches of one request; another process unpacks it once."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TypeVar

from meshwright.schema import Request
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.anatomy_cache import anatomy_of, with_known_graph
from meshwright_solver.pipeline.estimates import Estimator
from meshwright_solver.pipeline.graph_work import GraphWork
from meshwright_solver.pipeline.parallel_map import begun, fanned
from meshwright_solver.pipeline.stage_graph import Anatomy

# chosen: contexts in the LRU cache of a worker process; 20,000 ops take 48 MiB, and 0.6 s to unpack
KEPT = 4
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class SharedContext:
    request: Request
    anatomy: Anatomy

    @cached_property
    def estimator(self) -> Estimator:
        return Estimator(self.request, self.anatomy)

    @cached_property
    def work(self) -> GraphWork:
        return GraphWork(self.request, self.anatomy, calibration_for(self.request))


Work = Callable[[SharedContext, Task, Deadline], Result]


class Searches:
    """The searches of one request, on its executor or in this process; see `parallel_map.py`."""

    def __init__(self, shared: SharedContext, executor: Executor | None) -> None:
        self.shared = shared
        self.executor = executor

    def fanned(
        self, work: Work[Task, Result], tasks: Sequence[Task], deadline: Deadline
    ) -> Iterator[Result]:
        return fanned(self._bound(work), tasks, deadline, self.executor)

    def begun(
        self, work: Work[Task, Result], task: Task, deadline: Deadline
    ) -> Callable[[], Result | None]:
        return begun(self._bound(work), task, deadline, self.executor)

    def _bound(self, work: Work[Task, Result]) -> Callable[[Task, Deadline], Result]:
        if self.executor is None:
            return partial(work, self.shared)
        return partial(_run_packed, self._packed, work)

    @cached_property
    def _packed(self) -> bytes:
        """The compressed request; a graph of many layers compresses to a tenth."""
        return zlib.compress(pickle.dumps(self.shared.request), level=1)


def _run_packed(packed: bytes, work: Work[Task, Result], task: Task, deadline: Deadline) -> Result:
    return work(_unpacked(packed), task, deadline)


@lru_cache(maxsize=KEPT)
def _unpacked(packed: bytes) -> SharedContext:
    request: Request = pickle.loads(zlib.decompress(packed))  # noqa: S301  from the parent process
    request = with_known_graph(request)
    return SharedContext(request, anatomy_of(request.graph))
