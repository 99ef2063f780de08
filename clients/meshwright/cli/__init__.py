"""The command line: `meshwright`.

Exit codes: 0 done, 1 no plan fits, 2 bad input, 3 a service, a planner or a framework is missing,
130 ended by Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from meshwright.cli.app import cli
from meshwright.schema import MeshwrightError, Unavailable

__all__ = ["cli", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script: runs a command and exits with its code."""
    try:
        cli(args=None if arguments is None else list(arguments), prog_name="meshwright")
    except MeshwrightError as error:
        what = "" if isinstance(error, Unavailable) else f"{error.title}: "
        where = f" (at {error.pointer})" if error.pointer else ""
        sys.stderr.write(f"meshwright: {what}{error.detail}{where}\n")
        sys.exit(2 if error.status < 500 else 3)
    except OSError as failure:  # files say more; this is standard output, on a full disk
        sys.stderr.write(f"meshwright: the results cannot be written: {failure.strerror}\n")
        sys.exit(2)
