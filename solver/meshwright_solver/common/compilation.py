"""Compiled functions, and the folder of the numba cache.

The cache uses the first writable folder of:

    NUMBA_CACHE_DIR           if it is set
    the package               `__pycache__` next to each module
    $XDG_CACHE_HOME/numba     ~/.cache/numba if it is not set
    the system's temporary    a folder of mode 0700 per user id. It is used only if it is a real
    folder                    folder of that owner, because numba unpickles its files

Without a writable folder, as in a container with a read-only root, every process compiles the
functions again. numba alone raises RuntimeError in that case, at import.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

PACKAGE = Path(__file__).parent / "__pycache__"
OWNER_ALONE = 0o700


def cache_folder(environment: Mapping[str, str], package: Path = PACKAGE) -> Path | None:
    """Folder for compiled code; None if no folder is writable."""
    named = environment.get("NUMBA_CACHE_DIR")
    if named and _is_writable(Path(named)):
        return Path(named)
    if _is_writable(package):
        return package
    user = _of_user(environment)
    if user is not None and _is_writable(user):
        return user
    return _temporary()


def _of_user(environment: Mapping[str, str]) -> Path | None:
    """Cache folder of the user; None without a home folder."""
    named = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(named)
    return folder / "numba" if folder.is_absolute() else None


def _temporary() -> Path | None:
    """Private folder of this user id in the system's temporary folder; None if others own it."""
    try:
        folder = Path(tempfile.gettempdir()) / f"meshwright-numba-{os.getuid()}"
        folder.mkdir(mode=OWNER_ALONE, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == OWNER_ALONE
    if not is_private or status.st_uid != os.getuid():
        return None
    return folder if _is_writable(folder) else None


def _is_writable(folder: Path) -> bool:
    """Whether a folder, created if missing, accepts new files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


FOLDER = cache_folder(os.environ)
# numba tries this folder first; an empty name stands for the folder of each module
numba.config.CACHE_DIR = (  # type: ignore[attr-defined]  # numba makes it from the environment
    "" if FOLDER in (None, PACKAGE) else str(FOLDER)
)


def njit(
    *,
    nogil: bool,
    cache: bool = False,
    inline: Literal["never", "always"] = "never",
    fastmath: bool | set[str] = False,
) -> Callable[[F], F]:
    """`numba.njit`. cache: store compiled code, if there is a folder for it."""
    is_kept = cache and FOLDER is not None
    decorated = numba.njit(nogil=nogil, cache=is_kept, inline=inline, fastmath=fastmath)

    def compiled(function: F) -> F:
        dispatcher = decorated(function)
        if is_kept:
            _ignore_unreadable_index(dispatcher)
        return cast(F, dispatcher)  # has the signature of the function

    return compiled


def _ignore_unreadable_index(dispatcher: Any) -> None:
    """Compile again if an index names classes that no longer exist.

    An index lists argument types, including named tuples. numba unpickles the whole index before it
    compares the age of the sources, and raises AttributeError after a class was renamed.
    """
    file = dispatcher._cache._cache_file
    load_index = file._load_index

    def load() -> dict[Any, Any]:
        try:
            index: dict[Any, Any] = load_index()
        except (AttributeError, ImportError):
            return {}
        return index

    file._load_index = load
