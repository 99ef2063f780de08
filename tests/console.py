"""Pages whose commands run: `python -m tests.console [--write] PAGE...`.

A block ```console of a page has commands, each after `$ `, and their output. All commands of a
page run in one shell, in an empty folder with the examples of the project. A block of code below a
paragraph that ends in a file name and a colon is that file. In the output of a page `...` alone
stands for any lines, and `…` for any characters. `--write` puts the present output into the page.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PORT = "8780"  # of the pages; the commands get a free one
LIMIT_S = 400.0  # chosen: ten times a page on an idle machine
FILE_BLOCK = re.compile(
    r"`([\w./-]+\.\w+)`[^`\n]*:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MASKS = (
    (re.compile(r"\b([a-z]+_)(?:[0-9a-f]{12,}|[0-9a-f]+…|…)"), r"\1…"),  # ids
    (re.compile(r"\b(mw_)[\w-]+…"), r"\1…"),  # the first characters of a key
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?"), "DATE"),
    (re.compile(r"(worst difference) [\d.e+-]+"), r"\1 SMALL"),
    (re.compile(r"\b(after|in|took) [\d.]+ (ns|µs|ms|s|min)\b"), r"\1 TIME"),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, the output that the page shows, and the place of that output."""

    text: str
    shown: tuple[str, ...]
    span: tuple[int, int]

    @property
    def is_background(self) -> bool:
        """A server, which goes on while the next commands run."""
        return self.text.rstrip().endswith("&")

    @property
    def may_fail(self) -> bool:
        """The output is an error message of the project."""
        return any(line.startswith(("meshwright: ", "meshwright-server: ")) for line in self.shown)


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a command, and its exit status; None of one that goes on."""

    command: Command
    lines: tuple[str, ...]
    status: int | None

    @property
    def problem(self) -> str | None:
        """The difference from the page."""
        if self.status not in (0, None) and not self.command.may_fail:
            return f"$ {self.command.text}\nends with {self.status}:\n" + "\n".join(self.lines)
        rest = ("...",) if self.command.is_background else ()  # what is logged later
        if matches((*self.command.shown, *rest), self.lines):
            return None
        texts = [[mask(line) for line in own] for own in (self.command.shown, self.lines)]
        return f"$ {self.command.text}\n" + "\n".join(
            difflib.unified_diff(*texts, "page", "output", lineterm="")
        )


def commands_of(page: str) -> Iterator[Command]:
    """The commands of a page in their order."""
    for block in CONSOLE_BLOCK.finditer(page):
        place = block.start(1)
        lines = block[1].splitlines(keepends=True)
        while lines:
            text = lines.pop(0)
            place += len(text)
            assert text.startswith("$ "), f"a block begins with `$ `: {text}"
            while text.endswith("\\\n"):
                place += len(lines[0])
                text += lines.pop(0)
            begin, shown = place, []
            while lines and not lines[0].startswith("$ "):
                place += len(lines[0])
                shown.append(lines.pop(0).rstrip())
            yield Command(text.removeprefix("$ ").rstrip(), tuple(shown), (begin, place))


def run_page(page: str) -> list[Result]:
    """Run all commands of a page in a folder of their own."""
    with tempfile.TemporaryDirectory() as parent:
        folder, outputs = Path(parent, "page"), Path(parent, "outputs")
        folder.mkdir()
        outputs.mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        commands = list(commands_of(page))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        for name, text in FILE_BLOCK.findall(page):
            (folder / name).write_text(text.replace(PORT, port), encoding="utf-8")
        script = "\n".join(_shell(command, outputs / str(n)) for n, command in enumerate(commands))
        _run(script.replace(PORT, port), folder)
        return [
            _result(command, outputs / str(n), port, str(folder))
            for n, command in enumerate(commands)
        ]


def _shell(command: Command, output: Path) -> str:
    """The command as a part of the script."""
    if command.is_background:
        wait = f"for _ in $(seq 600); do [ -s {output} ] && break; sleep 0.1; done"
        return f"{command.text.rstrip('& ')} > {output} 2>&1 &\n{wait if command.shown else ''}"
    return f"{{ {command.text}\n}} > {output} 2>&1\necho $? > {output}.status"


def _run(script: str, folder: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MESHWRIGHT")}
    environment = kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
        "PYTHONWARNINGS": "ignore",
    }
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        shell.wait(LIMIT_S)
    finally:
        _end(shell.pid)
        shell.wait()


def _end(group: int) -> None:
    """End what the commands of a page left running."""
    for number, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 0.0)):
        end = time.monotonic() + seconds
        try:
            os.killpg(group, number)
            while time.monotonic() < end:
                os.killpg(group, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return


def _result(command: Command, output: Path, port: str, folder: str) -> Result:
    text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
    lines = [line.rstrip() for line in text.replace(port, PORT).replace(folder, ".").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    status = Path(f"{output}.status")
    ended = None if command.is_background else int(status.read_text()) if status.exists() else -1
    return Result(command, tuple(lines), ended)


def mask(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, stand_in in MASKS:
        line = pattern.sub(stand_in, line)
    return line.rstrip()


def matches(shown: Sequence[str], lines: Sequence[str]) -> bool:
    """The output of a page stands for these lines."""
    if not shown:
        return not lines
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == "..." else _line_pattern(line) + "\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{mask(line)}\n" for line in lines)) is not None


def _line_pattern(line: str) -> str:
    return r"[^\n]*".join(re.escape(part) for part in mask(line).split("…"))


def rewritten(page: str, results: Sequence[Result]) -> str:
    """The page with the output of its commands."""
    for result in reversed(results):
        if result.problem:
            begin, end = result.command.span
            lines = present(result.command.shown, result.lines)
            page = page[:begin] + "".join(f"{line}\n" for line in lines) + page[end:]
    return page


def present(shown: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The output in place of what a page shows; with `...`, the lines most like its own."""
    if "..." not in shown:
        return [_short(line) for line in lines]
    chosen, begin = [], 0
    for line in shown:
        if line == "...":
            chosen.append(line)
            continue
        rest = lines[begin:]
        ratios = [difflib.SequenceMatcher(None, mask(line), mask(own)).ratio() for own in rest]
        if ratios and max(ratios) > 0.5:
            place = ratios.index(max(ratios))
            chosen.append(_short(rest[place]))
            begin += place + 1
    return chosen


def _short(line: str) -> str:
    return re.sub(r"\b([a-z]+_[0-9a-f]{4})[0-9a-f]{8,}", r"\1…", line)


def main() -> None:
    """Run the pages named on the command line."""
    words = sys.argv[1:]
    failed = False
    for name in [word for word in words if word != "--write"]:
        path = Path(name)
        page = path.read_text(encoding="utf-8")
        began = time.monotonic()
        results = run_page(page)
        seconds = time.monotonic() - began
        sys.stderr.write(f"{name}: {len(results)} commands, {seconds:.1f} s\n")
        problems = [result.problem for result in results if result.problem]
        sys.stderr.write("\n\n".join([*problems, ""]))
        failed |= bool(problems)
        if "--write" in words and problems:
            path.write_text(rewritten(page, results), encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    if shutil.which("bash") is None:
        sys.exit("the pages need bash")
    main()
