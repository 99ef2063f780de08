"""The Dockerfile and the scripts of the image; `make image-check` builds and runs it."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "image"
TEXT = (ROOT / "Dockerfile").read_text("utf-8")
STATEMENTS = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
STAGES = [own for own in re.split(r"(?m)^(?=FROM )", "\n".join(STATEMENTS)) if "FROM" in own]
IGNORED = (ROOT / ".dockerignore").read_text("utf-8").splitlines()


def environment(stage: str) -> dict[str, str]:
    """The variables that a stage sets."""
    words = [word for own in re.findall(r"(?m)^ENV (.*)$", stage) for word in shlex.split(own)]
    return dict(word.split("=", 1) for word in words)


def in_context(path: str) -> bool:
    """Whether .dockerignore lets a path of the repository into the build."""
    verdict = True
    for line in IGNORED:
        pattern = line.removeprefix("!").removeprefix("**/")
        if (
            line
            and not line.startswith("#")
            and any(fnmatch.fnmatch(part, pattern) for part in (path, path.partition("/")[0]))
        ):
            verdict = line.startswith("!")
    return verdict


def test_tools_and_sources_stay_in_earlier_stages() -> None:
    assert len(STAGES) == 3
    last = STAGES[-1]
    copied = re.findall(r"(?m)^COPY (.*)$", last)
    assert all(line.startswith(("--from=kernels ", "deploy/")) for line in copied)
    assert "pip" not in last
    assert "pip wheel" in STAGES[0]
    assert "--no-index" in STAGES[1]


def test_the_image_is_labelled() -> None:
    labels = set(re.findall(r"(org\.opencontainers\.image\.[a-z.]+)=", STAGES[-1]))
    names = {"title", "description", "licenses", "version", "revision", "base.name"}
    assert labels == {f"org.opencontainers.image.{name}" for name in names}
    assert 'version="${VERSION}"' in STAGES[-1]


def test_kernels_are_compiled_for_the_processor_that_the_image_names() -> None:
    compiled, run = environment(STAGES[1]), environment(STAGES[2])
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        assert compiled[name] == run[name]
    assert run["MALLOC_ARENA_MAX"] == "2"
    assert run["NUMBA_CACHE_DIR"].startswith("/tmp/")


def test_the_image_runs_as_another_user_than_root() -> None:
    assert re.search(r"(?m)^USER [1-9]\d*:[1-9]\d*$", STAGES[-1])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("service", True), ("clients", True), ("pyproject.toml", True), ("constraints.txt", True),
        ("deploy", True), ("secrets", False), (".env", False), (".git", False), (".venv", False),
        ("tests", False), ("admin.key", False), ("meshwright.db", False),
    ],
)  # fmt: skip
def test_the_build_sees_the_sources_and_no_secrets(path: str, expected: bool) -> None:
    assert in_context(path) == expected


def test_every_file_that_a_stage_copies_is_there() -> None:
    for line in re.findall(r"(?m)^COPY (.*)$", TEXT):
        if not line.startswith("--from") and line != ". .":
            for path in line.split()[:-1]:
                assert (ROOT / path).exists(), path
    for path in re.findall(r"/image/([a-z.-]+)", TEXT):
        assert (FOLDER / path).is_file(), path


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_parses(script: Path) -> None:
    shell = script.read_text("utf-8").partition("\n")[0].split()[-1].rpartition("/")[2]
    subprocess.run([shell, "-n", script], check=True, timeout=60)


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_start_brings_the_kernels_and_becomes_the_command(
    tmp_path: Path, is_writable: bool
) -> None:
    kernels, cache = tmp_path / "kernels", tmp_path / ("cache" if is_writable else "file/cache")
    (kernels / "solver_1").mkdir(parents=True)
    (kernels / "solver_1" / "one.nbi").write_text("index")
    (tmp_path / "file").write_text("")  # no folder can be made below a file
    script = tmp_path / "entrypoint.sh"
    text = (FOLDER / "entrypoint.sh").read_text("utf-8")
    script.write_text(text.replace("/opt/meshwright/kernels", str(kernels)))
    for _ in range(2):
        done = subprocess.run(
            ["sh", script, "sh", "-c", 'echo "$PPID $*"', "name", "a b"],
            capture_output=True, text=True, check=True, timeout=60,
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        )  # fmt: skip
        assert done.stdout == f"{os.getpid()} a b\n"
        assert bool(done.stderr) != is_writable
    assert (cache / "solver_1" / "one.nbi").is_file() == is_writable
