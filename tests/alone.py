"""Run again, with nothing beside them, the few tests that failed while others ran.

A test of processes and time limits can fail because its machine was busy. Such a test is run a
second time, alone, and named with both results; a failure that does not depend on load fails
twice. More than `MOST` failures are not run again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

MOST = 4  # chosen: of some 10,000 tests; a change that breaks something mostly breaks more
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= MOST:
        return 1
    sys.stdout.write(f"\nAgain, alone: {', '.join(failed)}\n")
    sys.stdout.flush()
    status = pytest.main([*failed])
    if status == pytest.ExitCode.OK:
        sys.stdout.write(f"Failed beside other tests and passed alone: {', '.join(failed)}\n")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
