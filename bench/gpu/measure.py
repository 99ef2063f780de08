"""`python -m bench.gpu.measure -o FOLDER`: what one CUDA device takes for everything predicted.

Needs a CUDA device, PyTorch, transformers and the package `meshwright`. The runtime needs plans,
which this command makes where the planner is installed, or takes from `--plans` (as `python -m
bench.gpu.predict --plans FOLDER` writes them). Each part runs in a process of its own under a time
limit and writes its results as it goes. The traceback of a part that fails is in `failures.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# chosen: seconds at most of each part, in this order
LIMITS = {
    "machine": 40, "agent": 110, "equal": 60, "steps": 150, "runtime": 75, "kernels": 40,
    "compiled": 180,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", default=list(LIMITS), choices=list(LIMITS))
    parser.add_argument("--seconds", type=float, default=600, help="for all parts")
    parser.add_argument("--plans", type=Path, help="plans for the runtime")
    parser.add_argument("--device", default="h100", help="device of a preset, for such plans")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    if given.part:
        PARTS[given.part](given)
        return
    if given.plans is None and {"equal", "runtime"} & {*given.parts}:
        from bench.gpu.predict import write_plans

        given.plans = given.output / "plans"
        write_plans(given.plans, given.device)
    begin = time.monotonic()
    for part in given.parts:
        left = given.seconds - (time.monotonic() - begin)
        _run(part, given, min(LIMITS[part], left))


def _run(part: str, given: argparse.Namespace, seconds: float) -> None:
    """One part in its own process; its failure is noted."""
    command = [sys.executable, "-m", "bench.gpu.measure", "-o", str(given.output), "--part", part]
    command += ["--seconds", str(seconds), "--only", *given.only]
    command += [] if given.plans is None else ["--plans", str(given.plans)]
    began = time.monotonic()
    log = given.output / "log.txt"
    with log.open("a") as file:
        # a session of its own, so that its processes end with it
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        try:
            status = str(process.wait(timeout=max(seconds, 1)))
        except subprocess.TimeoutExpired:
            status = "out of time"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        file.seek(0, os.SEEK_END)
        file.write(f"== {part}: status {status}, {time.monotonic() - began:.1f} s\n")
    _say(log.read_text(errors="replace")[-1200:])


def machine(given: argparse.Namespace) -> None:
    """What the machine says of itself, for the provenance of all other files."""
    import torch

    from meshwright.agent.machine.reading import Machine

    def output_of(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=15).stdout
        except (OSError, subprocess.TimeoutExpired) as why:
            return str(why)

    torch.ones(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0)
    fields = (
        "name,driver_version,memory.total,clocks.max.sm,clocks.sm,power.limit,pcie.link.gen.max"
    )
    proposal = Machine.here().propose(hosts=1, each=1)
    _write(
        given.output / "machine.json",
        {
            "measured_at": _now(),
            "command": "python -m bench.gpu.measure",
            "device": properties.name,
            "total_memory_bytes": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
            "nvidia_smi": output_of(
                "nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"
            ).strip(),
            "topology_matrix": output_of("nvidia-smi", "topo", "-m"),
            "proposed_levels": [level.model_dump(mode="json") for level in proposal.levels],
            "proposed_notes": list(proposal.notes),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "transformers": __import__("transformers").__version__,
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "context_bytes": total - free - torch.cuda.memory_reserved(),
        },
    )


def agent(given: argparse.Namespace) -> None:
    """The agent, by the command that users run."""
    subprocess.run(
        [sys.executable, "-m", "meshwright.cli", "agent", "-o", str(given.output / "samples.json"),
         "--seconds", "60"],
        check=True,
    )  # fmt: skip
    for left in given.output.glob("samples.json.partial"):
        left.unlink()


def kernels(given: argparse.Namespace) -> None:
    """Kernels and copies by device events."""
    from bench.gpu.kernels import agent_tasks, attentions, copies, updates

    def rows() -> Iterator[Row]:
        for part in (attentions, updates, copies, agent_tasks):
            try:
                yield from part()
            except Exception:
                _failed(given, f"kernels {part.__name__}")

    _append(given, "kernels", rows())


def steps(given: argparse.Namespace) -> None:
    """Training steps of modules."""
    from bench.gpu.cases import STEPS

    _cases(given, STEPS)


def compiled(given: argparse.Namespace) -> None:
    """Training steps of compiled modules."""
    from bench.gpu.cases import COMPILED

    _cases(given, COMPILED)


def _cases(given: argparse.Namespace, cases: Iterable[Any]) -> None:
    from bench.gpu.training import measure_module

    _each(given, "steps", cases, measure_module)


def equal(given: argparse.Namespace) -> None:
    """Plans that the runtime carries out, beside the modules' own losses and gradients."""
    from bench.gpu.cases import EQUAL
    from bench.gpu.runtime import compare_runtime

    _each(given, "equal", EQUAL, lambda case: compare_runtime(case, _plan(given, case)))


def runtime(given: argparse.Namespace) -> None:
    """Time and memory of plans that the runtime carries out."""
    from bench.gpu.cases import RUNTIME
    from bench.gpu.runtime import measure_runtime

    _each(given, "runtime", RUNTIME, lambda case: measure_runtime(case, _plan(given, case)))


def _plan(given: argparse.Namespace, case: Any) -> Path:
    from bench.gpu.measurements import plan_path

    return plan_path(given.plans, case.name)


def _each(
    given: argparse.Namespace, name: str, cases: Iterable[Any], work: Callable[[Any], Row]
) -> None:
    """A row for every case, until the time is up."""
    from bench.gpu.training import release

    begin = time.monotonic()

    def rows() -> Iterator[Row]:
        for case in cases:
            if given.only and not case.name.startswith(tuple(given.only)):
                continue
            if time.monotonic() - begin > given.seconds - 15:
                _say(f"no time for {case.name}")
                continue
            began = time.monotonic()
            try:
                row = work(case)
            except Exception:
                _failed(given, case.name)
            else:
                yield {"case": case.name, **row, "seconds": round(time.monotonic() - began, 1)}
            release()

    _append(given, name, rows())


def _append(given: argparse.Namespace, name: str, rows: Iterable[Row]) -> None:
    with (given.output / f"{name}.jsonl").open("a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()
            _say(" ".join(f"{key}={value}" for key, value in row.items())[:300])


def _failed(given: argparse.Namespace, what: str) -> None:
    text = f"== {what}\n{traceback.format_exc()}\n"
    with (given.output / "failures.txt").open("a") as file:
        file.write(text)
    _say(text[-1200:])


def _write(path: Path, document: Row) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "machine": machine, "agent": agent, "equal": equal, "steps": steps, "runtime": runtime,
    "kernels": kernels, "compiled": compiled,
}  # fmt: skip

if __name__ == "__main__":
    main()
