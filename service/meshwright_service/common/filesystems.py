"""File system types: SQLite needs shared memory, which network file systems lack."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")  # only on Linux
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
    """The file system type of a path, as `mount` prints it; empty if unknown."""
    try:
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return ""
    place = path.resolve()
    kind, deepest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(ESCAPED.sub(lambda code: chr(int(code[1], 8)), before.split()[4]))
        depth = len(point.parts)
        if place.is_relative_to(point) and depth >= deepest:  # a later mount hides an earlier one
            kind, deepest = after.split()[0], depth
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system type is a network one; an unknown FUSE type counts as one."""
    if kind in LOCAL_FUSE:
        return False
    return kind in NETWORK or kind == "fuse" or kind.startswith("fuse.")
