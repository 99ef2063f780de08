"""Where output goes: results to standard output, everything else to standard error."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console

PLAIN_WIDTH = 140  # columns where the output is no terminal; chosen


def results() -> Console:
    """Standard output; plain text and a fixed width where it is no terminal."""
    return Console(
        highlight=False, width=None if sys.stdout.isatty() else _width(), soft_wrap=False
    )


def notices() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def say(words: str) -> None:
    """A result in words: as it is, in one line however long."""
    results().print(words, markup=False, soft_wrap=True)


def _width() -> int:
    return shutil.get_terminal_size((PLAIN_WIDTH, 50)).columns
