"""OOM kills: the processes that the Linux kernel has killed for lack of memory."""

from __future__ import annotations

from pathlib import Path

FOR_MEMORY = "killed for lack of memory"
# of the machine since its start; of the control group since its creation
COUNTERS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))


def oom_kills() -> int:
    """The number of OOM kills so far; 0 if the system does not count them."""
    return max(_count(path) for path in COUNTERS)


def _count(path: Path) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.split()[:1] == ["oom_kill"])
