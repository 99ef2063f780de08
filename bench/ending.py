"""How a measurement ends: with every process that it began, whoever tells it to, however often.

`measured(main)` runs `main` in a process and a session of its own and waits for it. This one, its
owner, takes in whatever loses its parent down there (a database that went into the background, a
search whose server was killed), so that nothing gets away: once `main` is over, what is left is
killed, and the folder that all temporary files went to is deleted.

The first SIGTERM or Ctrl-C ends `main` through its `with`s, which end servers, workers and
databases in order. Another one, or END_S later, and all is killed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

END_S = 90  # chosen: a service ends in 20 s of requests under way, a fleet's one after another
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
TOLD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def measured(main: Callable[[], None]) -> NoReturn:
    """Run it; when this returns to the shell, nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="mw-"))  # short: a socket's path has 107 bytes at most
    folder.chmod(0o755)  # PostgreSQL is another user where we are root
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    owner = os.getpid()
    running = os.fork()
    if running == 0:
        _run(main, owner, folder)
    status = _outcome(running)
    _kill_children()
    _unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(status)


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str], *, seconds: float = 30) -> None:
    """Ask a process to end, and kill it where it has not by then."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)  # one that is frozen would not hear the other
        process.terminate()
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=seconds)
    finally:
        if process.stdout is not None:
            process.stdout.close()


def _run(main: Callable[[], None], owner: int, folder: Path) -> NoReturn:
    os.setsid()  # a signal to the group of the owner is heard by the owner alone
    signal.signal(signal.SIGTERM, _leave)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != owner:
        sys.exit(128 + signal.SIGTERM)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    main()
    sys.exit()


def _leave(number: int, _: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def _outcome(running: int) -> int:
    """The exit status for the shell, once it is over."""
    told: list[int] = []

    def tell(number: int, _: object) -> None:
        told.append(number)
        signal.alarm(END_S)
        with suppress(ProcessLookupError):
            os.kill(running, signal.SIGTERM if len(told) == 1 else signal.SIGKILL)

    for number in (*TOLD, signal.SIGALRM):
        signal.signal(number, tell)
    while True:
        process, ended = os.wait()
        if process == running:
            status = os.waitstatus_to_exitcode(ended)
            break
    for number in (*TOLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)  # what is left is killed already
    return 128 + told[0] if told else status if status >= 0 else 128 - status


def _kill_children() -> None:
    """Kill them until none is left: children of one that is killed become our own."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    with suppress(ChildProcessError):
        while True:
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
            os.wait()


def _unmount(folder: Path) -> None:
    """Small disks that nobody took away."""
    at = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    for mounted in [path for path in at if path.startswith(f"{folder}/")]:
        subprocess.run(["umount", "-l", mounted], check=False)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
