"""The planner is imported where it can be read, and compiled once where anything can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshwright_solver.common.compilation import cache_folder

ROOT = Path(__file__).parents[3]
SOURCES = (
    ROOT / "clients" / "meshwright",
    ROOT / "costmodel" / "meshwright_costmodel",
    ROOT / "solver" / "meshwright_solver",
)
NOBODY = 65534  # chosen: the user id of `nobody`, who has no home
NOWHERE = "/nonexistent"
COMPILE = """
import numpy as np
from meshwright_solver.common.compilation import FOLDER
import meshwright_solver.planning.planner
from meshwright_solver.search.elimination.min_plus import _compiled_product as compiled
compiled(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), np.full((1, 2, 2), np.inf))
print(FOLDER, sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values()))
"""


SHOW_FOLDER = """
from meshwright_solver.common.compilation import FOLDER
print(FOLDER)
"""

# root can write anywhere, and another user may not read root's interpreter: load what is not ours,
# forget what is, and go on as another user
AS_NOBODY = """
import os, sys
import numba, numpy
import {loaded}
numba.njit(lambda table: table.min())(numpy.zeros((1, 2)))
ours = ("meshwright_solver", "meshwright_costmodel", "meshwright")
for name in [own for own in sys.modules if own.split(".")[0] in ours]:
    del sys.modules[name]
sys.path[:0] = [{installed!r}]
os.setgroups([])
os.setgid({user})
os.setuid({user})
import meshwright_solver
assert meshwright_solver.__path__ == [{installed!r} + "/meshwright_solver"]
"""


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """A copy of the packages that nobody can write to."""
    folder = Path(tempfile.mkdtemp(prefix="meshwright-installed-"))
    for source in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / source.name, ignore=ignored)
    folders = [folder, *(own for own in folder.rglob("*") if own.is_dir())]
    for own in folders:
        own.chmod(0o555)
    yield folder
    for own in folders:
        own.chmod(0o755)
    shutil.rmtree(folder)


def run(installed: Path, program: str, temporary: Path, **more: str) -> list[str]:
    """What a program prints as a user without a home, another one where we are root."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": NOWHERE,
        "PYTHONPATH": str(installed),
        "PYTHONSAFEPATH": "1",
        "TMPDIR": str(temporary),
        **more,
    }
    if os.getuid() == 0:
        environment["PYTHONPATH"] = os.pathsep.join(str(own.parent) for own in SOURCES)
        planner = "meshwright_solver.planning.planner"
        loaded = planner if planner in program else "meshwright_solver.common.compilation"
        program = AS_NOBODY.format(installed=str(installed), user=NOBODY, loaded=loaded) + program
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


@pytest.fixture
def temporary(installed: Path) -> Iterator[Path]:
    """A folder that everybody can write to, beside what nobody can."""
    installed.chmod(0o755)
    folder = installed / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    installed.chmod(0o555)
    yield folder
    installed.chmod(0o755)
    shutil.rmtree(folder)
    installed.chmod(0o555)


def test_compiled_code_is_shared_in_the_temporary_folder(installed: Path, temporary: Path) -> None:
    folder, hits, misses = run(installed, COMPILE, temporary)
    assert Path(folder).parent == temporary
    assert (int(hits), int(misses)) == (0, 1)
    made = Path(folder).stat()
    assert made.st_mode & 0o777 == 0o700
    assert made.st_uid == (NOBODY if os.getuid() == 0 else os.getuid())
    again = run(installed, COMPILE, temporary)
    assert again == [folder, "1", "0"]


def test_the_planner_is_imported_where_nothing_can_be_written(
    installed: Path, temporary: Path
) -> None:
    nowhere = f"import tempfile\ntempfile.tempdir = {NOWHERE!r}\n"
    folder, hits, _ = run(installed, nowhere + COMPILE, temporary)
    assert (folder, hits) == ("None", "0")


@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_a_temporary_folder_that_others_can_read_or_write_is_not_used(
    installed: Path, temporary: Path, mode: int
) -> None:
    user = NOBODY if os.getuid() == 0 else os.getuid()
    planted = temporary / f"meshwright-numba-{user}"
    planted.mkdir()
    planted.chmod(mode)
    if os.getuid() == 0:
        os.chown(planted, NOBODY, NOBODY)
    assert run(installed, SHOW_FOLDER, temporary) == ["None"]


def test_a_link_in_the_temporary_folder_is_not_followed(installed: Path, temporary: Path) -> None:
    user = NOBODY if os.getuid() == 0 else os.getuid()
    (temporary / "elsewhere").mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(temporary / "elsewhere", NOBODY, NOBODY)
    (temporary / f"meshwright-numba-{user}").symlink_to(temporary / "elsewhere")
    assert run(installed, SHOW_FOLDER, temporary) == ["None"]


def test_a_cache_of_the_user_goes_before_the_temporary_folder(
    installed: Path, temporary: Path
) -> None:
    own = temporary / "cache"
    (folder,) = run(installed, SHOW_FOLDER, temporary, XDG_CACHE_HOME=str(own))
    assert Path(folder) == own / "numba"


def test_a_folder_that_is_named_goes_before_all_others(tmp_path: Path) -> None:
    package, named = tmp_path / "package", tmp_path / "named"
    assert cache_folder({"NUMBA_CACHE_DIR": str(named)}, package) == named
    assert cache_folder({}, package) == package
    # a file is no folder
    (tmp_path / "file").touch()
    broken = {"NUMBA_CACHE_DIR": str(tmp_path / "file" / "folder")}
    assert cache_folder(broken, package) == package


RENAMED = """
from typing import NamedTuple
from meshwright_solver.common.compilation import njit

class {name}(NamedTuple):
    value: int

@njit(cache=True, nogil=True)
def twice(given: {name}) -> int:
    return 2 * given.value

print(twice({name}(21)))
"""


def test_compiled_code_of_a_class_that_was_renamed_is_compiled_again(tmp_path: Path) -> None:
    module = tmp_path / "kernels.py"
    path = os.pathsep.join([str(tmp_path), *(str(source.parent) for source in SOURCES)])
    for name in ("Before", "Afterwards"):
        module.write_text(RENAMED.format(name=name))
        ran = subprocess.run(
            [sys.executable, "-c", "import kernels"],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert ran.stdout.split() == ["42"], ran.stderr
    assert list((tmp_path / "cache").rglob("*.nbi"))
