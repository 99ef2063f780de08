"""Calls of torch.utils.checkpoint while a module is traced: tracing goes through them unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.utils.checkpoint

from meshwright.capture.substitution import substituted

NOTE = (
    "torch.utils.checkpoint is not part of the graph. The planner chooses the recomputation; use "
    "`--recompute`"
)
# the functions that `checkpoint` looks up when it is called, without and with reentrant backward
_CALLED = "_checkpoint_without_reentrant_generator"


@contextmanager
def checkpoint_notes() -> Iterator[list[str]]:
    """A list that has the note once the traced module has called `checkpoint`."""
    notes: list[str] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            notes[:] = [NOTE]
            return function(*arguments, **keywords)

        return call

    module: Any = torch.utils.checkpoint
    function = module.CheckpointFunction
    with substituted(
        (module, _CALLED, noting(getattr(module, _CALLED))),
        (function, "apply", noting(function.apply)),
    ):
        yield notes
