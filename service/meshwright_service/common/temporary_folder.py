"""The folder for temporary files, in which processes of the service meet."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

OWNER_ALONE = 0o700
NAME = "tmp"  # short: the path of a socket has at most 108 bytes


def ensure_temporary_folder(data_dir: Path) -> None:
    """Use a folder in `data_dir` if the system has no writable folder for temporary files.

    The fork server has its socket there, and numba its cache. Sets TMPDIR, which child processes
    inherit. Raises OSError if the data folder is not writable either.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        folder = data_dir.absolute() / NAME
        data_dir.mkdir(mode=OWNER_ALONE, parents=True, exist_ok=True)
        folder.mkdir(mode=OWNER_ALONE, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None  # computed again, from TMPDIR
