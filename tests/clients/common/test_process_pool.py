"""Processes for independent searches: they begin, and end with who began them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from meshwright.common.process_pool import processes

# prints the id of a worker that then sleeps, and is killed before it can say goodbye
ORPHANS = """
import os, time
from meshwright.common.process_pool import processes
if __name__ == "__main__":
    with processes(2) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(60)
"""


def test_one_process_is_this_one() -> None:
    with processes(1) as executor:
        assert executor is None


def test_several_are_others_and_do_not_hear_ctrl_c() -> None:
    with processes(2) as executor:
        assert executor is not None
        worker = executor.submit(os.getpid).result()
        assert worker != os.getpid()
        os.kill(worker, signal.SIGINT)
        assert executor.submit(sum, [1, 2]).result() == 3


def test_they_end_with_who_began_them(tmp_path: Path) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    ends = time.monotonic() + 60
    while _is_running(worker) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not _is_running(worker)


def _is_running(process: int) -> bool:
    try:
        said = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return said.rpartition(")")[2].split()[0] != "Z"
