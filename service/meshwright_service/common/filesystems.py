"""On which kind of file system a path is: SQLite needs shared memory, which no network has."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")  # of Linux; elsewhere nothing is known
NETWORK = frozenset(
    {
        "nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "beegfs", "ceph",
        "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "ocfs2", "orangefs",
        "pvfs2",
    }
)  # fmt: skip
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.unionfs", "fuseblk"})  # over local disks
ESCAPED = re.compile(r"\\([0-7]{3})")


def kind_of(path: Path, mounts: Path = MOUNTS) -> str:
    """The type of the file system that a path is on, as `mount` calls it; empty where unknown."""
    try:
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return ""
    place = path.resolve()
    found, deepest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(ESCAPED.sub(lambda code: chr(int(code[1], 8)), before.split()[4]))
        depth = len(point.parts)
        if place.is_relative_to(point) and depth >= deepest:  # a later mount hides an earlier one
            found, deepest = after.split()[0], depth
    return found


def is_network(kind: str) -> bool:
    """Whether files of this type are elsewhere; of FUSE all but those known to be here."""
    if kind in LOCAL_FUSE:
        return False
    return kind in NETWORK or kind == "fuse" or kind.startswith("fuse.")
