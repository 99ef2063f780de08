"""Loops over a symbolic size, of which a trace holds as many rounds as the traced size has.

A copy of the module runs on the meta device, at small sizes and at the traced ones. A line of the
program that calls PyTorch GROWTH times as often at the traced sizes runs in such a loop.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from meshwright.capture.substitution import substituted
from meshwright.capture.trace_errors import is_of_program, shown_line

# chosen: the small sizes, or a SHARE of the traced ones. Layers call as often at all sizes, and a
# branch for long sequences at most twice as often
SMALL, SHARE, GROWTH = 61, 16, 3
# chosen: a graph of more calls takes more than a minute to capture
MOST_CALLS = 5_000

Line = tuple[str, int]  # file and number
Run = Callable[[torch.nn.Module, Mapping[str, int]], None]


class NotRunnable(Exception):
    """The module fails at some sizes, which its trace reports."""


class _Enough(Exception):
    """A count that ends a run; the line that had it."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.line = line


@dataclass(frozen=True)
class UnrolledLoop:
    """A loop over a symbol; line: `FILE:LINE: TEXT` of a call in it."""

    symbol: str
    line: str


class _CallCounts(TorchFunctionMode):
    """Calls of PyTorch by line of the program; raises _Enough where a limit is passed."""

    def __init__(self, limits: Mapping[Line, int] | None = None, total: int | None = None) -> None:
        super().__init__()
        self.counts: Counter[Line] = Counter()
        self._limits, self._total, self._calls = limits or {}, total, 0
        # of a line that small sizes do not reach
        self._most = max(self._limits.values(), default=0)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        line = _program_line()
        if line is not None:
            self.counts[line] += 1
            self._calls += 1
            if self._most and self.counts[line] >= GROWTH * self._limits.get(line, self._most):
                raise _Enough(line)
            if self._total is not None and self._calls > self._total:
                raise _Enough(line)
        return func(*args, **(kwargs or {}))


def _exporting() -> AbstractContextManager[None]:
    """Let the program take the branches that it takes under torch.export."""
    compiler: Any = torch.compiler
    return substituted(
        (compiler, "_is_compiling_flag", True), (compiler, "_is_exporting_flag", True)
    )


def _program_line() -> Line | None:
    frame = sys._getframe(2)
    while frame is not None:
        if is_of_program(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]  # None at the bottom
    return None


class LoopSearch:
    """The search for loops in the forward pass of a module on the meta device.

    run: the forward pass of a module at some sizes. modes: what is entered for the trace.
    """

    def __init__(
        self, module: torch.nn.Module, run: Run, modes: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self._module, self._run, self._modes = module, run, modes

    def loop(self, sizes: Mapping[str, int]) -> UnrolledLoop | None:
        """A loop over one of the symbols at these traced sizes; None where there is none.

        Raises NotRunnable.
        """
        small = {symbol: min(SMALL, max(2, size // SHARE)) for symbol, size in sizes.items()}
        counts = self._counts(small)
        if self._grows(counts, sizes) is None:
            return None
        for symbol, size in sizes.items():
            line = self._grows(counts, {**small, symbol: size})
            if line is not None:
                return UnrolledLoop(symbol, shown_line(*line))
        return None

    def is_short(self, sizes: Mapping[str, int]) -> bool:
        """Whether a forward pass at these sizes calls PyTorch at most MOST_CALLS times.

        Raises NotRunnable.
        """
        try:
            self._pass(_CallCounts(total=MOST_CALLS), sizes)
        except _Enough:
            return False
        return True

    def _counts(self, sizes: Mapping[str, int]) -> Counter[Line]:
        mode = _CallCounts()
        self._pass(mode, sizes)
        return mode.counts

    def _grows(self, counts: Mapping[Line, int], sizes: Mapping[str, int]) -> Line | None:
        try:
            self._pass(_CallCounts(counts), sizes)
        except _Enough as enough:
            return enough.line
        return None

    def _pass(self, mode: _CallCounts, sizes: Mapping[str, int]) -> None:
        # a forward pass may leave tensors of its sizes in the module
        module = copy.deepcopy(self._module)
        with warnings.catch_warnings(), torch.no_grad(), _exporting(), self._modes(), mode:
            warnings.simplefilter("ignore")
            try:
                self._run(module, sizes)
            except _Enough:
                raise
            except Exception as failure:  # modules raise errors of any class
                raise NotRunnable from failure
