"""Calls of PyTorch in a forward pass on the meta device, with their numbers."""

from __future__ import annotations

import copy
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import flex_attention
from torch.overrides import TorchFunctionMode

from meshwright.capture.substitution import substituted
from meshwright.capture.trace_errors import is_of_program, shown_line

Line = tuple[str, int]  # file and number
Group = tuple[float, ...]
NumberPlace = tuple[int, int]  # the group, and the index in it or LENGTH
LENGTH = -1
# a block mask counts blocks of 128 positions, which capture does not read
_BLOCK_MASKS = flex_attention.__file__
Run = Callable[[torch.nn.Module, Mapping[str, int]], None]


class NotRunnable(Exception):
    """The module fails at some sizes, which its trace reports."""


class EnoughCalls(Exception):
    """A count that ends a run; the line that had it."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.line = line


@dataclass(frozen=True, slots=True)
class ForwardCall:
    """A call of PyTorch: the line of the program, the function, and the numbers.

    groups: numbers among the arguments, those of a list together, then the sizes of the results. A
    list of tensors has a group for each dim, so that the groups of a call are as many at all sizes.
    """

    line: Line
    function: str
    groups: tuple[Group, ...]

    @property
    def shown_line(self) -> str:
        return shown_line(*self.line)

    def is_at(self, other: ForwardCall) -> bool:
        """Whether both are one call of the program, maybe with other numbers."""
        return (self.line, self.function, len(self.groups)) == (
            other.line,
            other.function,
            len(other.groups),
        ) and all(
            len(one) == len(two) or (_is_uniform(one) and _is_uniform(two))
            for one, two in zip(self.groups, other.groups, strict=True)
        )

    def pairs(self, other: ForwardCall) -> Iterator[tuple[float, float, NumberPlace]]:
        """The numbers of two calls that are one in the program, with their places.

        Equal numbers in lists of different lengths count once, beside the lengths.
        """
        for group, (one, two) in enumerate(zip(self.groups, other.groups, strict=True)):
            if len(one) == len(two):
                yield from (
                    (a, b, (group, i)) for i, (a, b) in enumerate(zip(one, two, strict=True))
                )
            else:
                yield len(one), len(two), (group, LENGTH)
                yield from ((a, b, (group, 0)) for a, b in zip(one[:1], two[:1], strict=False))

    def number(self, place: NumberPlace) -> float | None:
        """The number at a place; None if the call has no such place."""
        group, index = place
        if group >= len(self.groups):
            return None
        numbers = self.groups[group]
        if index == LENGTH:
            return len(numbers)
        return numbers[index] if index < len(numbers) else None


class CallLog(TorchFunctionMode):
    """The calls of a forward pass, and their number by line.

    Raises EnoughCalls where a line has as many calls as its limit, or the pass more than `most`.
    """

    def __init__(
        self, limit: Callable[[Line], float] | None = None, most: float = float("inf")
    ) -> None:
        super().__init__()
        self.counts: Counter[Line] = Counter()
        self.calls: list[ForwardCall] = []
        self._limit, self._most = limit, most

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        line = _program_line()
        if line is None:
            return func(*args, **(kwargs or {}))
        self.counts[line] += 1
        reached = self._limit is not None and self.counts[line] >= self._limit(line)
        if reached or len(self.calls) >= self._most:
            raise EnoughCalls(line)
        result = func(*args, **(kwargs or {}))
        groups = (*_numbers((args, kwargs)), *_sizes(result))
        self.calls.append(ForwardCall(line, getattr(func, "__name__", ""), groups))
        return result


class ForwardPasses:
    """Forward passes of a module on the meta device, at chosen sizes.

    run: the forward pass of a module at some sizes. modes: what is entered for the trace.
    """

    def __init__(
        self, module: torch.nn.Module, run: Run, modes: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self._module, self._run, self._modes = module, run, modes
        self._logs: dict[tuple[tuple[str, int], ...], CallLog] = {}

    def at(self, sizes: Mapping[str, int], log: CallLog | None = None) -> CallLog:
        """The log of a pass at these sizes: that of an earlier pass, or `log`.

        Raises NotRunnable, and EnoughCalls of the log.
        """
        key = tuple(sorted(sizes.items()))
        if key not in self._logs:
            made = log or CallLog()
            self._pass(made, sizes)
            self._logs[key] = made
        return self._logs[key]

    def _pass(self, log: CallLog, sizes: Mapping[str, int]) -> None:
        # a forward pass may leave tensors of its sizes in the module
        module = copy.deepcopy(self._module)
        with warnings.catch_warnings(), torch.no_grad(), _exporting(), self._modes(), log:
            warnings.simplefilter("ignore")
            try:
                self._run(module, sizes)
            except EnoughCalls:
                raise
            except Exception as failure:  # modules raise errors of any class
                raise NotRunnable from failure


def _exporting() -> AbstractContextManager[None]:
    """Let the program take the branches that it takes under torch.export."""
    compiler: Any = torch.compiler
    return substituted(
        (compiler, "_is_compiling_flag", True), (compiler, "_is_exporting_flag", True)
    )


def _program_line() -> Line | None:
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _BLOCK_MASKS:
            return None
        if is_of_program(file):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]  # None at the bottom
    return None


def _is_uniform(group: Group) -> bool:
    return len(set(group)) <= 1


def _numbers(item: Any) -> Iterator[Group]:
    if isinstance(item, bool):
        return
    if isinstance(item, (int, float)):
        yield (item,)
    elif isinstance(item, (tuple, list)):
        if item and all(isinstance(part, int) for part in item):
            yield tuple(item)
            return
        for part in item:
            yield from _numbers(part)
    elif isinstance(item, dict):
        for part in item.values():
            yield from _numbers(part)
    elif isinstance(item, slice):
        yield from _numbers((item.start, item.stop, item.step))


def _sizes(result: Any) -> Iterator[Group]:
    if isinstance(result, torch.Tensor):
        yield tuple(result.shape)
    elif isinstance(result, (tuple, list)):
        if _is_list_of_samples(result):
            yield from zip(*(part.shape for part in result), strict=True)
            return
        for part in result:
            yield from _sizes(part)


def _is_list_of_samples(result: tuple[Any, ...] | list[Any]) -> bool:
    """Whether a result is a list of tensors with equally many dims."""
    ranks = {part.dim() if isinstance(part, torch.Tensor) else -1 for part in result}
    return len(ranks) == 1 and -1 not in ranks
