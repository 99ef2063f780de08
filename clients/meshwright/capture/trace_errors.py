"""Errors of tracing a module, in one line with the line of the module's source."""

from __future__ import annotations

import linecache
import logging
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import lru_cache
from io import StringIO
from pathlib import Path

import torch

from meshwright.schema.errors import GraphError

MOST = 300  # chosen: characters of PyTorch's message; its later lines are about its own options
_TRACERS = (Path(torch.__path__[0]).resolve(), Path(__file__).resolve().parents[1])
_STANDARD = Path(sysconfig.get_paths()["stdlib"]).resolve()
_PACKAGES = Path(sysconfig.get_paths()["purelib"]).resolve()  # may lie in the standard library
_VALUES = ("data-dependent", "DataDependent", "unbacked", "_local_scalar_dense", "item()")


@contextmanager
def quiet() -> Iterator[None]:
    """No reports of PyTorch on a failed trace: a graph on stderr, and a log with a traceback."""
    torch_logger = logging.getLogger("torch")
    level = torch_logger.level
    torch_logger.setLevel(logging.CRITICAL + 1)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        torch_logger.setLevel(level)


def trace_error(failure: Exception, module: torch.nn.Module) -> GraphError:
    """The GraphError that stands for an exception of torch.export."""
    kind = type(module).__name__
    message = str(failure)
    source = _source_line(failure)
    if any(word in message or word in type(failure).__name__ for word in _VALUES):
        return GraphError(
            f"the forward pass of {kind} depends on the values of a tensor{source}. Replace "
            "`.item()`, `nonzero` and `if` on tensors by tensor operations such as torch.where"
        )
    text = " ".join(message.split())
    shown = text if len(text) <= MOST else f"{text[:MOST]} …"
    return GraphError(f"{kind} cannot be traced: {type(failure).__name__}: {shown}{source}")


def _source_line(failure: BaseException) -> str:
    """The innermost line of the traced program that is not PyTorch's, as ` at FILE:LINE: TEXT`."""
    return _line_of([frame for error in _chain(failure) for frame in _frames(error)])


def current_line() -> str:
    """The innermost line of the traced program that runs now, in the same form."""
    return _line_of(traceback.extract_stack())


def _line_of(frames: Sequence[traceback.FrameSummary]) -> str:
    for frame in reversed(frames):
        if is_of_program(frame.filename):
            return f", at {frame.filename}:{frame.lineno}: `{frame.line}`"
    return ""


def shown_line(filename: str, number: int) -> str:
    """A line of a source as `FILE:LINE: TEXT`."""
    return f"{filename}:{number}: `{linecache.getline(filename, number).strip()}`"


@lru_cache(maxsize=4096)
def is_of_program(filename: str) -> bool:
    """Whether a source file is of the traced program, and not of PyTorch or Python."""
    path = Path(filename).resolve()
    is_standard = path.is_relative_to(_STANDARD) and not path.is_relative_to(_PACKAGES)
    is_tracer = any(path.is_relative_to(folder) for folder in _TRACERS)
    return path.is_file() and not is_standard and not is_tracer


def _chain(failure: BaseException) -> Iterator[BaseException]:
    """The exception last, the causes before it."""
    cause = failure.__cause__ or failure.__context__
    if cause is not None:
        yield from _chain(cause)
    yield failure


def _frames(failure: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(failure.__traceback__))
