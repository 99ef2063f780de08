"""Compiled functions, and the folder in which numba keeps them for other processes.

The first of these folders that can be written is used:

    NUMBA_CACHE_DIR           where it is set
    the package's own         `__pycache__` beside each module
    $XDG_CACHE_HOME/numba     ~/.cache/numba where it is not set
    the system's temporary    a folder of mode 0700 for each user id. It is used only where it is a
    folder                    real folder of that owner: numba unpickles what it finds there

Where none can be written, as in a container with a read-only root, every process compiles for
itself. numba alone raises RuntimeError there, at import.
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
    """The folder for compiled code; None where no folder can be written."""
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
    """The cache of a user, who may have no home folder."""
    named = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(named)
    return folder / "numba" if folder.is_absolute() else None


def _temporary() -> Path | None:
    """The folder of this user id in the system's temporary folder, if it is nobody else's."""
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
    """Whether a file can be made in a folder, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


FOLDER = cache_folder(os.environ)
# numba asks for this folder first; beside each module where it is none
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
    """`numba.njit`; cache: keep what is compiled, where there is a folder for it."""
    is_kept = cache and FOLDER is not None
    decorated = numba.njit(nogil=nogil, cache=is_kept, inline=inline, fastmath=fastmath)

    def compiled(function: F) -> F:
        dispatcher = decorated(function)
        if is_kept:
            _ignore_unreadable_index(dispatcher)
        return cast(F, dispatcher)  # called as the function is

    return compiled


def _ignore_unreadable_index(dispatcher: Any) -> None:
    """Compile again where an index names classes that the sources no longer have.

    An index lists argument types, named tuples among them. numba unpickles the whole index before
    it compares the age of the sources, and raises AttributeError after a class was renamed.
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
