"""File modes of a SQLite store: only its owner can read it.

The store holds the documents of all tenants and the digests of keys. SQLite gives its log (`-wal`,
`-shm`) the mode of the database.
"""

from __future__ import annotations

import logging
import os
import stat
from functools import cache
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
OTHERS = 0o077
LOGS = ("-wal", "-shm", "-journal")
log = logging.getLogger(__name__)


def create_folder(folder: Path) -> None:
    """Create the folder of a store for its owner only; an existing folder is unchanged."""
    folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)


def create_file(file: Path) -> None:
    """Create an empty database file for its owner only; an existing file is unchanged."""
    if not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, FILE))


def tighten(database: Path) -> None:
    """Remove the permissions of other users from the files of a store and from its own folder.

    Files of another user are unchanged; a warning is logged.
    """
    names = [database.name, *(database.name + suffix for suffix in LOGS)]
    if _is_store_folder(database.parent, names):
        _tighten(database.parent)
    for name in names:
        _tighten(database.with_name(name))


def _is_store_folder(folder: Path, names: list[str]) -> bool:
    """Whether a folder holds only the store and is no home directory or shared folder."""
    home = os.path.expanduser("~")  # Path.home() raises for a user without one
    if folder.resolve() == Path(home).resolve() or folder.stat().st_mode & stat.S_ISVTX:
        return False
    try:
        return {entry.name for entry in folder.iterdir()} <= {*names}
    except PermissionError:
        return False


def _tighten(path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(status.st_mode)
    if not mode & OTHERS:
        return
    if status.st_uid != os.geteuid():
        _warn(path, mode, "it belongs to another user")
        return
    try:
        path.chmod(mode & ~OTHERS)
    except OSError as failure:
        _warn(path, mode, str(failure.strerror))
        return
    log.warning("%s had the mode %04o; it has %04o now", path, mode, mode & ~OTHERS)


@cache
def _warn(path: Path, mode: int, why: str) -> None:
    """Log a warning, once in a process."""
    log.warning("%s has the mode %04o and stays so: %s; chmod go= it", path, mode, why)
